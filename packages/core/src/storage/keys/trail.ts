/** One recovery point reached: which, when (database's clock), under which fence. */
export interface TrailEntry {
  readonly point: string
  readonly atMs: number
  readonly fence: number
  readonly skipped: boolean
  /** Nobody knew whether the call before it was executed, and `whenUnknown` went on without it. */
  readonly outcomeUnknown: boolean
}

/** An entry as it is stored: short, because every advance writes all of them. */
interface StoredEntry {
  readonly p: string
  readonly t: number
  readonly f: number
  readonly s?: true
  readonly u?: true
}

/** The trail as it is stored. Whoever holds the key knows all of it, so the server has nothing to put together. */
export function trailJson(trail: readonly TrailEntry[]): string {
  return `[${trail.map(entryJson).join(',')}]`
}

/** Written out by hand, which costs a tenth of JSON.stringify. No phase's name needs escaping. */
function entryJson({ point, atMs, fence, skipped, outcomeUnknown }: TrailEntry): string {
  const flags = `${skipped ? ',"s":true' : ''}${outcomeUnknown ? ',"u":true' : ''}`
  return `{"p":"${point}","t":${Math.floor(atMs)},"f":${fence}${flags}}`
}

export function readTrail(json: string): readonly TrailEntry[] {
  if (json === '[]') return NO_TRAIL
  return (JSON.parse(json) as StoredEntry[]).map((entry) => ({
    point: entry.p,
    atMs: entry.t,
    fence: entry.f,
    skipped: entry.s === true,
    outcomeUnknown: entry.u === true,
  }))
}

const NO_TRAIL: readonly TrailEntry[] = []

/** SQL for whether a trail has a point that was reached without knowing what a call did. No phase's name has a quote in it. */
export const isInDoubt = (trail: string): string => `strpos(${trail}::text, '"u":true'::text) > 0`
