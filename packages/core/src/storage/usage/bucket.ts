import { NOW } from '../statement.js'

/** How many new keys a scope may reserve: `max` at once, and as many again in each `perMs`. */
export interface Rate {
  readonly max: number
  readonly perMs: number
}

/** If the clock has gone back by more than this, the bucket is filled as if it had gone forward: it must not stay empty. */
const FAR = "interval '10 minutes'"

const seconds = (interval: string): string => `extract(epoch FROM (${interval}))::double precision`

/**
 * What is in the bucket `u` now. `max`, `perMs`: parameters. Whoever waited for the row arrived before it was last written,
 * and finds no more in it than was left. There is no CASE, because Citus refuses one around a clock.
 */
export const tokensNow = (max: string, perMs: string): string =>
  `least(${max}::double precision, u.tokens
          + (((greatest(0::double precision, ${seconds(`${NOW} - u.refilled_at`)})
               + greatest(0::double precision, ${seconds(`(u.refilled_at - ${FAR}) - ${NOW}`)}))
             * 1000::double precision) * (${max}::double precision / ${perMs}::double precision)))`

/** Takes a token from the row that is there, if there is one. Part of an INSERT of a full bucket from which one was taken. */
export const takingToken = (max: string, perMs: string): string => `
  ON CONFLICT (scope, pipeline) DO UPDATE
     SET tokens = (${tokensNow(max, perMs)} - 1::double precision),
         refilled_at = least(greatest(u.refilled_at, ${NOW}), (${NOW} + ${FAR}))
   WHERE ${tokensNow(max, perMs)} >= 1::double precision`

/** When there will be one more token, if there are so many now. */
export function waitForToken({ max, perMs }: Rate, tokens: number): number {
  // Others may have emptied it since this was read.
  const missing = tokens >= 1 ? 1 : 1 - tokens
  return Math.max(1, Math.ceil((missing * perMs) / max))
}
