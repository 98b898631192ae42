const NOTHING = Buffer.alloc(0)

/** The bytes before a message's body: its length, and before that its type unless it is the first of a client. */
const LENGTH_BYTES = 4
const TYPE_BYTES = 1

/** Where one message ends in the bytes that have come so far. */
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

  /** The next whole message, without going past it; null until all of it has come. */
  peek(): Buffer | null {
    const head = (this.typed ? TYPE_BYTES : 0) + LENGTH_BYTES
    if (this.#bytes.length - this.#read < head) return null
    const length = this.#bytes.readInt32BE(this.#read + head - LENGTH_BYTES)
    const end = this.#read + head - LENGTH_BYTES + length
    return end > this.#bytes.length ? null : this.#bytes.subarray(this.#read, end)
  }

  /** Goes past a message that was peeked at: it belongs to what `take` gives. */
  pass(message: Buffer): void {
    this.#read += message.length
  }

  /** Goes past a message that nobody is to have. What was passed before it has to be taken first. */
  drop(message: Buffer): void {
    this.#read += message.length
    this.#taken = this.#read
  }

  /** All that was passed since the last time, in one piece. */
  take(): Buffer {
    const passed = this.#bytes.subarray(this.#taken, this.#read)
    this.#taken = this.#read
    return passed
  }

  /** Whatever has come and was not taken, the beginning of a message too. */
  takeAll(): Buffer {
    this.#read = this.#bytes.length
    return this.take()
  }
}
