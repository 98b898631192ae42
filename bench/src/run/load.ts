import { randomUUID } from 'node:crypto'
import type { Answer } from '../contender.js'

/** How requests are sent: a closed loop, in which every client sends its next request once it has its answer. */
export interface LoadPlan {
  readonly clients: number
  /** Not measured: connections open, code warms up, the loop reaches its pace. */
  readonly leadInMs: number
  readonly windowMs: number
  /**
   * `window`: what is answered within the window. `all`: everything from the first request to the last answer; each
   * client sends at least once.
   */
  readonly measure: 'window' | 'all'
  /** Keys to use in turn; null for a fresh one per request. */
  readonly keys: readonly string[] | null
  /** Any other status is an error. */
  readonly expectedStatus: number
  /** Ends earlier, once this many requests were answered. */
  readonly atMost?: number
}

/** What came of it. */
export interface LoadResult {
  /** Of the requests that were measured, in milliseconds. */
  readonly latenciesMs: Float64Array
  readonly seconds: number
  /** All requests that were answered as expected, also those that were not measured. */
  readonly total: number
  readonly errors: number
  /** What the first error was. */
  readonly firstError: string | null
}

/** Requests that prepare a scenario. */
export interface EachPlan {
  readonly keys: readonly string[]
  readonly clients: number
  readonly expectedStatus: number
}

/** Sends every key once. Throws if an answer is not the expected one. */
export async function sendEach(
  request: (key: string) => Promise<Answer>,
  { keys, clients, expectedStatus }: EachPlan,
): Promise<void> {
  const left = [...keys]
  async function runClient(): Promise<void> {
    for (let key = left.pop(); key !== undefined; key = left.pop()) {
      const { status, body } = await request(key)
      if (status !== expectedStatus)
        throw new Error(`${expectedStatus} was expected, but the answer was ${status}: ${body}`)
    }
  }
  await Promise.all(Array.from({ length: clients }, runClient))
}

/** How many windows it takes at most until everybody was answered. */
const MAX_WINDOWS = 5

export async function runLoad(
  request: (key: string) => Promise<Answer>,
  plan: LoadPlan,
): Promise<LoadResult> {
  const { clients, keys, expectedStatus, atMost = Infinity } = plan
  const watch = new StopWatch(plan)
  let total = 0
  let errors = 0
  let firstError: string | null = null
  let sent = 0

  async function runClient(): Promise<void> {
    do {
      const key = keys === null ? randomUUID() : (keys[sent++ % keys.length] ?? '')
      const start = performance.now()
      try {
        const { status, body } = await request(key)
        if (status === expectedStatus) {
          total++
          watch.answered(start, performance.now())
        } else {
          errors++
          firstError ??= `answered ${status}: ${body}`
        }
      } catch (error) {
        errors++
        firstError ??= error instanceof Error ? (error.stack ?? error.message) : String(error)
      }
    } while (total < atMost && !watch.isOver(performance.now()))
  }

  await Promise.all(Array.from({ length: clients }, runClient))
  return {
    latenciesMs: Float64Array.from(watch.latenciesMs),
    seconds: watch.seconds,
    total,
    errors,
    firstError,
  }
}

/** Decides which answers count, and over which time. */
class StopWatch {
  readonly latenciesMs: number[] = []
  readonly #plan: LoadPlan
  readonly #begin = performance.now()
  readonly #from: number
  #until: number
  #lastCounted: number

  constructor(plan: LoadPlan) {
    this.#plan = plan
    this.#from = this.#begin + plan.leadInMs
    this.#until = this.#from + plan.windowMs
    this.#lastCounted = this.#begin
  }

  answered(start: number, end: number): void {
    if (this.#plan.measure === 'window' && (end < this.#from || this.isOver(end))) return
    this.latenciesMs.push(end - start)
    this.#lastCounted = end
  }

  /** On a slow machine the window is longer: one in which hardly anybody was answered says nothing. */
  isOver(now: number): boolean {
    if (now < this.#until) return false
    const { measure, clients, windowMs } = this.#plan
    const enough = measure === 'all' || this.latenciesMs.length >= clients
    if (enough || now >= this.#from + windowMs * MAX_WINDOWS) return true
    this.#until += windowMs
    return this.isOver(now)
  }

  get seconds(): number {
    const { measure } = this.#plan
    return (measure === 'all' ? this.#lastCounted - this.#begin : this.#until - this.#from) / 1_000
  }
}
