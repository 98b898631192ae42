import { setTimeout as sleep } from 'node:timers/promises'
import { mulberry } from './random.js'
import type { Service } from './service.js'
import type { ApiOptions, World } from './world.js'

/** How long a process of the API takes to start, on a machine with nothing else to do. */
const USUAL_START_MS = 1_000

export interface HandOptions {
  readonly world: World
  /** The process that it kills first. */
  readonly api: Service
  /** How the others are started. */
  readonly apiOptions: ApiOptions
  readonly seed: number
  /** How much longer than the time that a process takes to start it is left alone: 1 kills in the middle of almost everything. */
  readonly patience: number
  /** Called with each process that it is about to kill. */
  readonly onKill?: (api: Service) => void
}

/** Kills one process again and again, after pauses that its seed decides, and starts another in its place. */
export class Hand {
  api: Service
  kills = 0
  readonly #options: HandOptions
  readonly #random: () => number
  readonly #told = new AbortController()
  /** How long a process takes to start here: one that is killed sooner never does anything. */
  #startMs = USUAL_START_MS

  constructor(options: HandOptions) {
    this.#options = options
    this.api = options.api
    this.#random = mulberry(options.seed)
  }

  async killUntilTold(): Promise<void> {
    const { world, apiOptions, patience, onKill } = this.#options
    const { signal } = this.#told
    while (!signal.aborted) {
      // From "still starting a ride" to "has finished some", on whatever machine this is.
      const pauseMs = (0.15 + this.#random() * 0.75) * this.#startMs * patience
      await sleep(pauseMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      onKill?.(this.api)
      await this.api.end('SIGKILL')
      this.kills++
      const begun = performance.now()
      this.api = await world.startApi(apiOptions)
      this.#startMs = Math.max(USUAL_START_MS, performance.now() - begun)
    }
  }

  rest(): void {
    this.#told.abort()
  }
}
