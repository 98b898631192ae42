/** A moment on both clocks of this process. */
export interface Moment {
  readonly monotonic: number
  readonly wallMs: number
}

export const thisMoment = (): Moment => ({ monotonic: performance.now(), wallMs: Date.now() })

/**
 * How long ago a moment was, at the least. A monotonic clock may stand still while a machine is suspended, and a wall clock may
 * be set back; both at once would take an accident.
 */
export const msSince = ({ monotonic, wallMs }: Moment): number =>
  Math.max(performance.now() - monotonic, Date.now() - wallMs)
