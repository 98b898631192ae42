/** A place among rows that are ordered by their scope, then by time, then by id and number. */
export interface ScopePlace {
  readonly scope: string
  /** As PostgreSQL prints it, to the microsecond. */
  readonly at: string
  readonly id: string
  /** Zero where ids alone tell rows apart. */
  readonly seq: number
}

/** Rows that were read from one place on. */
export interface ScopePage<Row> {
  /** Those that are due, of those that were read. */
  readonly due: readonly Row[]
  /** The last that was read; null if no more follow. */
  readonly last: ScopePlace | null
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

export const BEFORE_ALL_SCOPES: ScopePlace = { scope: '', at: '-infinity', id: FIRST_ID, seq: 0 }

/** Before the first row of the next scope. */
export const afterScope = (scope: string): ScopePlace => ({ scope, at: 'infinity', id: FIRST_ID, seq: 0 })

export const isAfterScope = ({ at }: ScopePlace): boolean => at === 'infinity'

/** Whether one place comes after another one of the same scope. Times are texts of one form, in the order of the times. */
export const isLater = (one: ScopePlace, other: ScopePlace): boolean => byTime(one, other) > 0

/** In the order of the database: scopes are compared as bytes. */
export function byScope(a: ScopePlace, b: ScopePlace): number {
  return Buffer.compare(Buffer.from(a.scope), Buffer.from(b.scope)) || byTime(a, b)
}

function byTime(a: ScopePlace, b: ScopePlace): number {
  const [first, second] = [`${a.at} ${a.id}`, `${b.at} ${b.id}`]
  if (first === second) return a.seq - b.seq
  return first < second ? -1 : 1
}
