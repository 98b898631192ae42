import { randomBytes } from 'node:crypto'
import { KeyedHash } from '../keyed-hash.js'

const RANDOM_SECRET_BYTES = 32
/** 64 bits: no two of a day's log lines meet by chance, and a line stays readable. */
const HASH_DIGITS = 16

/** For engines without a secret of their own: their hashes can be compared only within this process. */
const secretOfProcess = randomBytes(RANDOM_SECRET_BYTES)

/**
 * Makes short, one-way names for keys and scopes. Without a secret, whoever reads a log could try all tenant numbers in a
 * second and find out whose line it is: hence a keyed hash.
 */
export class NameHasher {
  readonly #keyed: KeyedHash

  constructor(secret: string | null) {
    this.#keyed = new KeyedHash(secret === null ? secretOfProcess : Buffer.from(secret))
  }

  hash(...parts: readonly string[]): string {
    return this.#keyed.hash(Buffer.from(JSON.stringify(parts))).slice(0, HASH_DIGITS)
  }
}
