import type { PawlError } from '@pawl/core'

/** The error that a use throws. */
export function queryRefusal(use: () => unknown): PawlError {
  try {
    use()
  } catch (error) {
    return error as PawlError
  }
  throw new Error('it was not refused')
}
