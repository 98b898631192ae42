/** The codes with which a client asks for encryption before it says anything else. */
const SSL_REQUEST = 80_877_103
const GSS_REQUEST = 80_877_104
const ENCRYPTION_REQUEST_BYTES = 8

/** Type and length of a message. */
const HEADER_BYTES = 5
const COMMAND_COMPLETE = 'C'.charCodeAt(0)
const YES = new Set(['S'.charCodeAt(0), 'G'.charCodeAt(0)])

/** What passed over one connection, in PostgreSQL's own terms. Chunks may end anywhere. */
export class Wire {
  /** Statements that the server has completed: CommandComplete messages. */
  statements = 0
  /** Times the client spoke after the server had. */
  roundTrips = 0
  /** From here on, nothing can be read. */
  isEncrypted = false
  #lastSpoke: 'nobody' | 'client' | 'server' = 'nobody'
  #awaitsEncryptionReply = false
  /** Bytes of the current message that are still to come. */
  #toSkip = 0
  readonly #header = Buffer.alloc(HEADER_BYTES)
  #headerBytes = 0

  fromClient(chunk: Buffer): void {
    if (this.#lastSpoke === 'nobody' && isEncryptionRequest(chunk)) this.#awaitsEncryptionReply = true
    if (this.#lastSpoke !== 'client') this.roundTrips++
    this.#lastSpoke = 'client'
  }

  /** Call it when the chunk is handed to the client, not when it comes from the server. */
  fromServer(chunk: Buffer): void {
    this.#lastSpoke = 'server'
    let at = 0
    if (this.#awaitsEncryptionReply && chunk.length > 0) {
      this.#awaitsEncryptionReply = false
      this.isEncrypted = YES.has(chunk[0] ?? 0)
      at = 1
    }
    while (at < chunk.length && !this.isEncrypted) at = this.#read(chunk, at)
  }

  /** Continues to read one message, and returns where it stopped. */
  #read(chunk: Buffer, at: number): number {
    if (this.#toSkip > 0) {
      const skipped = Math.min(this.#toSkip, chunk.length - at)
      this.#toSkip -= skipped
      return at + skipped
    }
    const end = Math.min(chunk.length, at + HEADER_BYTES - this.#headerBytes)
    chunk.copy(this.#header, this.#headerBytes, at, end)
    this.#headerBytes += end - at
    if (this.#headerBytes === HEADER_BYTES) {
      if (this.#header[0] === COMMAND_COMPLETE) this.statements++
      // The length counts itself, and not the type.
      this.#toSkip = this.#header.readInt32BE(1) - (HEADER_BYTES - 1)
      this.#headerBytes = 0
    }
    return end
  }
}

function isEncryptionRequest(chunk: Buffer): boolean {
  if (chunk.length !== ENCRYPTION_REQUEST_BYTES) return false
  const code = chunk.readInt32BE(4)
  return code === SSL_REQUEST || code === GSS_REQUEST
}
