import { PawlError } from '../errors.js'
import { MAX_KEY_LENGTH, MAX_SCOPE_LENGTH } from '../limits.js'
import { unstorableIn } from '../storable-text.js'

/** Refuses a scope or key that PostgreSQL could not hold, or that two clients could spell alike. */
export function checkRequest(where: string, scope: unknown, key: unknown): void {
  checkName(where, 'scope', scope, MAX_SCOPE_LENGTH)
  checkName(where, 'key', key, MAX_KEY_LENGTH)
}

function checkName(where: string, what: 'scope' | 'key', value: unknown, maxLength: number): void {
  if (typeof value !== 'string') {
    throw new PawlError(
      'PAWL_INVALID_REQUEST',
      `${where}: ${what} is ${value === null ? 'null' : `of type ${typeof value}`}; it has to be a string.`,
    )
  }
  if (value.length === 0 || value.length > maxLength) {
    throw new PawlError(
      'PAWL_INVALID_REQUEST',
      `${where}: ${what} has ${value.length} characters; it takes 1 to ${maxLength}.`,
    )
  }
  const unstorable = unstorableIn(value)
  if (unstorable !== null)
    throw new PawlError('PAWL_INVALID_REQUEST', `${where}: ${what} contains ${unstorable}.`)
}
