import type { MetFault, ProviderFault } from './provider-fault.js'

/** Which requests a fault waits for: those that change something, or any. */
export interface ArmOptions {
  /** Default `change`. */
  readonly on?: 'change' | 'any'
}

/** A fault that waits for its request. */
export interface ArmedFault {
  /** Resolves when the fault has struck, and the request has been executed and answered as far as it will be. Else it never does. */
  readonly struck: Promise<void>
  readonly hasStruck: boolean
  /** From now on no request meets it. One that has already met it is not spared. */
  disarm(): void
}

/** Faults that wait for requests; the first one armed is the first one met. */
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

  /** Takes the fault that a request meets. Each request meets at most one. */
  take(isQuestion: boolean): MetFault | null {
    const next = this.#waiting.find(({ on }) => on === 'any' || !isQuestion)
    this.#waiting = this.#waiting.filter((each) => each !== next)
    return next?.met ?? null
  }

  clear(): void {
    this.#waiting = []
  }
}
