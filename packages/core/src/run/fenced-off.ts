/**
 * The key belongs to another holder by now, or its row is not as this holder left it: nothing that this holder writes takes
 * effect any more. Every write of a holder can throw this, and the loop catches it, in one place. It never leaves the engine
 * and never reaches a user's function. It is nobody's error, so it is not stored, and does not count as an attempt.
 */
export class FencedOff extends Error {
  /** When it was noticed. */
  readonly during: 'work' | 'give_back'

  constructor(during: 'work' | 'give_back' = 'work') {
    super('The row is not as this holder left it.')
    this.during = during
  }
}

/** Returns what a holder's write returned. Throws `FencedOff` where the write did not find the row as the holder had left it. */
export function heldOrThrow<T>(written: T | null | undefined): T {
  if (written == null) throw new FencedOff()
  return written
}

/** A safe `instanceof FencedOff`: a user's function may throw a proxy that throws when it is asked. */
export function isFencedOff(thrown: unknown): thrown is FencedOff {
  try {
    return thrown instanceof FencedOff
  } catch {
    return false
  }
}
