const NOTHING = Buffer.alloc(0)

/** The bytes before a message's body: its type, which a client's first messages do not have, and its length. */
const LENGTH_BYTES = 4
const TYPE_BYTES = 1

/** Where one message ends in the bytes that have arrived so far. */
export class MessageReader {
  /** A client's first messages have no type. */
  typed: boolean
  #bytes: Buffer = NOTHING
  #taken = 0
  #read = 0

  constructor(typed: boolean) {
    this.typed = typed
  }

  push(chunk: Buffer): void {
    const left = this.#bytes.subarray(this.#taken)
    this.#read -= this.#taken
    this.#taken = 0
    this.#bytes = left.length === 0 ? chunk : Buffer.concat([left, chunk])
  }

  /** Returns the next whole message without going past it, or null until all of it has arrived. */
  peek(): Buffer | null {
    const head = (this.typed ? TYPE_BYTES : 0) + LENGTH_BYTES
    if (this.#bytes.length - this.#read < head) return null
    const length = this.#bytes.readInt32BE(this.#read + head - LENGTH_BYTES)
    const end = this.#read + head - LENGTH_BYTES + length
    return end > this.#bytes.length ? null : this.#bytes.subarray(this.#read, end)
  }

  /** Goes past a message that was peeked at, so that it becomes part of what `take` returns. */
  pass(message: Buffer): void {
    this.#read += message.length
  }

  /** Goes past a message that nobody is to get. What was passed before it has to be taken first. */
  drop(message: Buffer): void {
    this.#read += message.length
    this.#taken = this.#read
  }

  /** Everything that was passed since the last time, in one piece. */
  take(): Buffer {
    const passed = this.#bytes.subarray(this.#taken, this.#read)
    this.#taken = this.#read
    return passed
  }

  /** Everything that has arrived and was not taken, including the beginning of a message. */
  takeAll(): Buffer {
    this.#read = this.#bytes.length
    return this.take()
  }
}
