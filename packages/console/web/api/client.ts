import type { AsJson, ErrorAnswer, Session } from '../../src/api.js'
import type { ConsoleErrorCode } from '../../src/console-error.js'
import { clock } from '../live/clock.js'
import { ApiError } from './api-error.js'
import { BASE } from './base.js'

/** The parameters of an address. What is undefined, null or empty is left out. */
export type QueryValues = Readonly<Record<string, string | number | null | undefined>>

/** Whoever waits has gone by then, and the server has given up long before. */
const TIMEOUT_MS = 40_000

let csrf = ''

/** The address of something of the API, for links and downloads as well. */
export function apiUrl(path: string, query: QueryValues = {}): string {
  const url = new URL(`api/${path}`, BASE)
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, String(value))
  }
  return url.href
}

/** Asks. `Answer` is a type of `src/api.ts`. */
export async function get<Answer>(
  path: string,
  query: QueryValues = {},
  signal?: AbortSignal,
): Promise<AsJson<Answer>> {
  return send<Answer>(apiUrl(path, query), { method: 'GET' }, signal)
}

/** Asks for a change, once: nothing is repeated. */
export async function post<Answer>(
  path: string,
  body: object,
  signal?: AbortSignal,
): Promise<AsJson<Answer>> {
  const headers = { 'content-type': 'application/json', 'x-pawl-csrf': csrf }
  return send<Answer>(apiUrl(path), { method: 'POST', headers, body: JSON.stringify(body) }, signal)
}

/** Who is signed in. Until it has answered, no change can be asked for. */
export async function getSession(signal?: AbortSignal): Promise<AsJson<Session>> {
  const session = await get<Session>('session', {}, signal)
  csrf = session.csrf
  clock.observeConsole(session.now)
  return session
}

async function send<Answer>(
  url: string,
  init: RequestInit,
  signal: AbortSignal | undefined,
): Promise<AsJson<Answer>> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  const either = signal === undefined ? timeout : AbortSignal.any([signal, timeout])
  const response = await fetch(url, {
    ...init,
    signal: either,
    credentials: 'same-origin',
    headers: { accept: 'application/json', ...(init.headers as Record<string, string> | undefined) },
  }).catch((error: unknown) => {
    // Whoever aborted is not to be told an error.
    if (signal?.aborted === true) throw error
    throw new ApiError('unreachable', 'The console does not answer. It may have been stopped.')
  })
  const answer = (await response.json().catch(() => null)) as unknown
  if (signal?.aborted === true) throw signal.reason
  if (response.ok && answer !== null) return answer as AsJson<Answer>
  throw readError(response, answer)
}

function readError(response: Response, answer: unknown): ApiError {
  const told = (answer as AsJson<ErrorAnswer> | null)?.error
  if (typeof told?.message === 'string')
    return new ApiError(told.code as ConsoleErrorCode, told.message, told)
  if (response.status === 401) return new ApiError('unauthenticated', 'Nobody is signed in.')
  return new ApiError(
    'unreadable',
    `Something between this page and the console answered instead of it, with status ${response.status}.`,
  )
}
