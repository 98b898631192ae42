/** How many tokens a bucket has: `max` at once, and as many again in each `perMs`. */
export interface Rate {
  readonly max: number
  readonly perMs: number
}

/** What a scope takes tokens for. */
export type BucketKind = 'new_keys' | 'lookups'

/** Parameters, or other expressions. `pipeline`: `''` stands for all of them. */
export interface BucketParts {
  readonly scope: string
  readonly kind: string
  readonly pipeline: string
  readonly max: string
  readonly perMs: string
}

/**
 * If the clock has gone back by more than this, the bucket is filled as if it had gone forward: it must not stay empty. A clock that
 * is behind by less fills nothing.
 */
const FAR_SECONDS = '600::double precision'

/** Of the difference of two moments: unlike a moment and an interval, it depends on nothing else, such as the time zone. */
const seconds = (difference: string): string => `extract(epoch FROM (${difference}))::double precision`

/**
 * What is in the bucket `u` at a moment. Whoever waited for the row arrived before it was last written, and finds no more in it
 * than was left.
 */
export const tokensAt = (now: string, { max, perMs }: Pick<BucketParts, 'max' | 'perMs'>): string =>
  `least(${max}::double precision, u.tokens
          + (((greatest(0::double precision, ${seconds(`${now} - u.refilled_at`)})
               + greatest(0::double precision, ${seconds(`u.refilled_at - ${now}`)} - ${FAR_SECONDS}))
             * 1000::double precision) * (${max}::double precision / ${perMs}::double precision)))`

/** Names the row of the bucket `u`. */
export const isBucket = ({ scope, kind, pipeline }: BucketParts): string =>
  `u.scope = ${scope} AND u.kind = ${kind} AND u.pipeline = ${pipeline} AND u.part = 0`

/**
 * Takes a token, if there is one: from the row that is there, or from a full bucket. `row`: what is inserted, by `fromFullBucket`.
 * Citus accepts no clock in ON CONFLICT: the moment comes with the row that was to be inserted.
 */
export function takingToken(usage: string, row: string, bucket: BucketParts): string {
  const then = tokensAt('excluded.refilled_at', bucket)
  return `
  INSERT INTO ${usage} AS u (scope, kind, pipeline, part, tokens, refilled_at, per_ms)
  ${row}
  ON CONFLICT (scope, kind, pipeline, part) DO UPDATE
     SET tokens = (${then} - 1::double precision), per_ms = excluded.per_ms,
         refilled_at = CASE WHEN ${seconds('u.refilled_at - excluded.refilled_at')} > ${FAR_SECONDS} THEN excluded.refilled_at
                            ELSE greatest(u.refilled_at, excluded.refilled_at) END
   WHERE ${then} >= 1::double precision`
}

/** The row of a bucket from which one token was taken. */
export const fromFullBucket = (now: string, { scope, kind, pipeline, max, perMs }: BucketParts): string =>
  `${scope}, ${kind}, ${pipeline}, 0, ${max}::double precision - 1::double precision, ${now}, ${perMs}::double precision`

/** When there will be one more token, if there are so many now. */
export function waitForToken({ max, perMs }: Rate, tokens: number): number {
  // Others may have emptied it since this was read.
  const missing = tokens >= 1 ? 1 : 1 - tokens
  return Math.max(1, Math.ceil((missing * perMs) / max))
}
