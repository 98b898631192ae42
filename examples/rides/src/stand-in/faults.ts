/** What a request can meet at the stand-in. */
const FAULTS = [
  /** Executed, answered after a while. */
  'slow',
  /** Not executed, never answered. */
  'timeout_before',
  /** Executed, never answered. */
  'timeout_after',
  /** Not executed, 500, and the next attempt may succeed. */
  'error_before',
  /** Not executed, 500, remembered and repeated for its key, as Stripe does. */
  'stored_error',
  /** 402. */
  'declined',
] as const

export type Fault = (typeof FAULTS)[number]

/** Faults that wait for the next requests, first come first served. */
export class Faults {
  readonly #waiting: Fault[] = []

  add(faults: readonly Fault[]): void {
    this.#waiting.push(...faults)
  }

  next(): Fault | null {
    return this.#waiting.shift() ?? null
  }
}

export function isFault(value: unknown): value is Fault {
  return (FAULTS as readonly unknown[]).includes(value)
}
