import type { OptionOwner } from './check-option.js'
import { PawlError } from './errors.js'
import { MIN_HASH_SECRET_LENGTH } from './limits.js'

/** Checks the option `hashSecret`; returns null if it is not given. */
export function checkHashSecret(owner: OptionOwner, secret: unknown): string | null {
  if (secret === undefined) return null
  // Never shown, whatever it is.
  if (typeof secret !== 'string' || secret.length < MIN_HASH_SECRET_LENGTH) {
    const got =
      typeof secret === 'string' ? `a string of ${secret.length} characters` : `of type ${typeof secret}`
    throw new PawlError(
      owner.code,
      `${owner.where}: hashSecret is ${got}; it takes a string of ${MIN_HASH_SECRET_LENGTH} characters or more.`,
    )
  }
  return secret
}
