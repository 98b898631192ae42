/** What is written down of an intervention. */
export interface Note {
  readonly actor: string
  readonly reason: string
  /** JSON text: what it was before, and what was given. */
  readonly detailJson: string
}
