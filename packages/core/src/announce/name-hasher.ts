import { randomBytes } from 'node:crypto'
import { sha256 } from '../sha256.js'

const BLOCK_BYTES = 64
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c
const RANDOM_SECRET_BYTES = 32
/** 64 bits: no two of a day's log lines meet by chance, and a line stays readable. */
const HASH_DIGITS = 16

/** For engines without a secret of their own: their hashes can be compared only within this process. */
const secretOfProcess = randomBytes(RANDOM_SECRET_BYTES)

/**
 * Makes short, one-way names for keys and scopes. Without a secret, whoever reads a log could try all tenant numbers in a
 * second and find out whose line it is: hence HMAC-SHA-256. (`createHmac` would leave objects that outlive many
 * requests.)
 */
export class NameHasher {
  readonly #inner: Buffer
  readonly #outer: Buffer

  constructor(secret: string | null) {
    const given = secret === null ? secretOfProcess : Buffer.from(secret)
    const key = given.length > BLOCK_BYTES ? Buffer.from(sha256(given, 'hex'), 'hex') : given
    const block = Buffer.concat([key], BLOCK_BYTES)
    this.#inner = block.map((byte) => byte ^ INNER_PAD) as Buffer
    this.#outer = block.map((byte) => byte ^ OUTER_PAD) as Buffer
  }

  hash(...parts: readonly string[]): string {
    const inner = sha256(Buffer.concat([this.#inner, Buffer.from(JSON.stringify(parts))]), 'hex')
    return sha256(Buffer.concat([this.#outer, Buffer.from(inner, 'hex')]), 'hex').slice(0, HASH_DIGITS)
  }
}
