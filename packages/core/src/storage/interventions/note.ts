/** What is recorded about an intervention. */
export interface Note {
  readonly actor: string
  readonly reason: string
  /** JSON text: what the row was before, and what was given. */
  readonly detailJson: string
}
