/** A fault that is to strike once: which one, where, and in which attempt. */
export interface PlannedFault {
  /** 0 is the first run of the request, 1 the first recovery, and so on. */
  readonly attempt: number
  /** Its id, such as `crash` or `providerTimeout.after`. */
  readonly fault: string
  /** The position, as `phase/step#occurrence:when`. */
  readonly at: string
}
