import { PROVIDER_RETRY_AFTER_S } from '../limits.js'
import { halved, refusal, type WireAnswer } from './fake-answer.js'

/** What a request meets in place of a plain answer. */
export type ProviderFault =
  /** The request is neither executed nor answered. */
  | 'timeoutBefore'
  /** The request is executed, and never answered. */
  | 'timeoutAfter'
  /** The request is not executed, and the connection breaks. */
  | 'cutBefore'
  /** The request is executed, and the connection breaks. */
  | 'cutAfter'
  /** The answer is 429. The request is not executed, and nothing is remembered for its key. */
  | 'tooMany'
  /** The answer is 500, as above. */
  | 'serverError'
  /** The answer is 503, as above. */
  | 'unavailable'
  /** The request is executed, and the answer's body ends in the middle. */
  | 'malformed'
  /** The request is executed. Its answer waits until it is let go. */
  | 'hold'
  /** The request waits until it is let go. Then it is executed and answered. */
  | 'holdBefore'

/** A fault that a request has met. */
export interface MetFault {
  readonly fault: ProviderFault
  /** Reports that it has happened. */
  strike(): void
}

/** One request, and everything that can be done with it. */
export interface Exchange {
  /** Does what was requested, however often it was requested before. */
  process(): Promise<WireAnswer>
  send(answer: WireAnswer): void
  /** Breaks the connection. */
  cut(): void
  /** Resolves when it is let go. */
  held(): Promise<void>
}

const RETRY_AFTER = { 'retry-after': String(PROVIDER_RETRY_AFTER_S) }
const TOO_MANY = refusal(429, 'rate_limited', 'Too many requests. Nothing has been executed.', RETRY_AFTER)
const SERVER_ERROR = refusal(500, 'internal_error', 'Something went wrong. Nothing has been executed.')
const UNAVAILABLE = refusal(503, 'unavailable', 'Not available. Nothing has been executed.', RETRY_AFTER)

/** Serves a request, whether or not its client is still there. */
export async function serve(exchange: Exchange, met: MetFault | null): Promise<void> {
  if (met === null) return exchange.send(await exchange.process())
  switch (met.fault) {
    case 'timeoutBefore':
      return met.strike()
    case 'timeoutAfter':
      await exchange.process()
      return met.strike()
    case 'cutBefore':
      exchange.cut()
      return met.strike()
    case 'cutAfter':
      await exchange.process()
      exchange.cut()
      return met.strike()
    case 'tooMany':
      exchange.send(TOO_MANY)
      return met.strike()
    case 'serverError':
      exchange.send(SERVER_ERROR)
      return met.strike()
    case 'unavailable':
      exchange.send(UNAVAILABLE)
      return met.strike()
    case 'malformed':
      exchange.send(halved(await exchange.process()))
      return met.strike()
    case 'hold': {
      const answer = await exchange.process()
      const held = exchange.held()
      met.strike()
      await held
      return exchange.send(answer)
    }
    case 'holdBefore': {
      const held = exchange.held()
      met.strike()
      await held
      return exchange.send(await exchange.process())
    }
  }
}
