import { sha256 } from './sha256.js'

const BLOCK_BYTES = 64
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

/** HMAC-SHA-256 with one secret. (`createHmac` would leave objects that outlive many requests.) */
export class KeyedHash {
  readonly #inner: Buffer
  readonly #outer: Buffer

  constructor(secret: Uint8Array) {
    const key = secret.length > BLOCK_BYTES ? Buffer.from(sha256(secret, 'hex'), 'hex') : secret
    const block = Buffer.concat([key], BLOCK_BYTES)
    this.#inner = block.map((byte) => byte ^ INNER_PAD) as Buffer
    this.#outer = block.map((byte) => byte ^ OUTER_PAD) as Buffer
  }

  /** In hexadecimal digits. */
  hash(data: Uint8Array): string {
    const inner = sha256(Buffer.concat([this.#inner, data]), 'hex')
    return sha256(Buffer.concat([this.#outer, Buffer.from(inner, 'hex')]), 'hex')
  }
}
