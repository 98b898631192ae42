/** One line of a finding's timeline. */
export interface TimelineEntry {
  readonly tick: number
  /** The actor, or `database`, `provider`, `kit`. */
  readonly who: string
  /** What happened, in words. */
  readonly what: string
  /** Recovery point after it; null: no row, or not known. */
  readonly point: string | null
  readonly fence: number | null
}
