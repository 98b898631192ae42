import { PawlError } from '../../errors.js'
import type { SessionFacts } from './read-session.js'

/** The oldest major version that the tests run on. With older ones, nobody knows whether the guarantees hold. */
export const OLDEST_POSTGRES = 15

export function isSupported({ serverVersionNumber }: Pick<SessionFacts, 'serverVersionNumber'>): boolean {
  return serverVersionNumber >= OLDEST_POSTGRES * 10_000
}

export function checkServer(facts: SessionFacts): void {
  if (isSupported(facts)) return
  throw new PawlError(
    'PAWL_UNSUPPORTED_SERVER',
    `The server is PostgreSQL ${facts.serverVersion}; Pawl needs ${OLDEST_POSTGRES} or later, and is not tested with older ones. Upgrade the server. Nothing was changed.`,
  )
}
