import { createHmac, randomBytes } from 'node:crypto'
import { sha256 } from './sha256.js'

/** Marks what stands in place of an erased name, so that nobody takes it for one. */
const PREFIX = 'erased_'

/** 128 bits: no two of any number of names meet by chance. */
const DIGITS = 32

const RANDOM_SECRET_BYTES = 32

/**
 * What is written in place of a person's names. With a secret, the same name always gets the same hash, which only those who know the
 * secret can compare. Without one, the hashes of each erasure are made with a random secret that is thrown away.
 */
export class Pseudonyms {
  readonly #secret: string | Buffer
  readonly #isKnown: boolean

  constructor(secret: string | null) {
    this.#isKnown = secret !== null
    this.#secret = secret ?? randomBytes(RANDOM_SECRET_BYTES)
  }

  ofScope(scope: string): string {
    return this.#hash('scope', scope)
  }

  ofKey(scope: string, key: string): string {
    return this.#hash('key', scope, key)
  }

  ofReference(reference: string): string {
    return this.#hash('reference', reference)
  }

  /** For the record of an erasure, which somebody has to find again: without a secret, a plain hash. */
  inRecord(...names: readonly string[]): string {
    const json = JSON.stringify(names)
    return this.#isKnown
      ? `hmac-sha256:${createHmac('sha256', this.#secret).update(json).digest('hex')}`
      : `sha256:${sha256(json, 'hex')}`
  }

  #hash(...parts: readonly string[]): string {
    const hmac = createHmac('sha256', this.#secret).update(JSON.stringify(parts))
    return PREFIX + hmac.digest('hex').slice(0, DIGITS)
  }
}

/** Whether a name was erased. */
export function isPseudonym(name: string): boolean {
  return name.startsWith(PREFIX) && name.length === PREFIX.length + DIGITS
}
