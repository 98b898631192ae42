import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { AsJson, Session } from '../../src/api.js'

export type SessionAnswer = AsJson<Session>

/** Null until it is known, and where nobody is signed in. */
export const SessionContext = createContext<SessionAnswer | null>(null)

/** Who is signed in, and what they may do. */
export function useSession(): SessionAnswer | null {
  return useContext(SessionContext)
}
