import type { MetFault, ProviderFault } from './provider-fault.js'

/** Which requests a fault waits for: those that change something, or whatever comes. */
export interface ArmOptions {
  /** Default `change`. */
  readonly on?: 'change' | 'any'
}

/** A fault that waits for its request. */
export interface ArmedFault {
  /** Resolves when it has happened: executed if at all, answered if at all. Never, if no request meets it. */
  readonly struck: Promise<void>
  readonly hasStruck: boolean
  /** No request meets it from now on; one that has met it already is not saved. */
  disarm(): void
}

/** Faults that wait, first come first served. */
export class ArmedFaults {
  #waiting: { readonly on: 'change' | 'any'; readonly met: MetFault }[] = []

  arm(fault: ProviderFault, { on = 'change' }: ArmOptions = {}): ArmedFault {
    let resolve: () => void
    let hasStruck = false
    const struck = new Promise<void>((done) => {
      resolve = done
    })
    const strike = () => {
      hasStruck = true
      resolve()
    }
    const waiting = { on, met: { fault, strike } }
    this.#waiting.push(waiting)
    return {
      struck,
      get hasStruck() {
        return hasStruck
      },
      disarm: () => {
        this.#waiting = this.#waiting.filter((each) => each !== waiting)
      },
    }
  }

  /** The fault that a request meets: each only one. */
  take(isQuestion: boolean): MetFault | null {
    const next = this.#waiting.find(({ on }) => on === 'any' || !isQuestion)
    this.#waiting = this.#waiting.filter((each) => each !== next)
    return next?.met ?? null
  }

  clear(): void {
    this.#waiting = []
  }
}
