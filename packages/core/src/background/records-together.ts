import { setImmediate as turn } from 'node:timers/promises'
import type { ClaimedJob } from '../storage/jobs/claiming.js'
import type { Delivery } from './sink.js'

type Write = (jobs: readonly ClaimedJob[], deliveries: readonly Delivery[]) => Promise<void>

/**
 * Records deliveries that end in the same turn of the event loop together. Where each of many scopes has a job or two, that is one
 * statement instead of one for each, and their places become free together, so that the next claim fills all of them.
 */
export class RecordsTogether {
  readonly #write: Write
  #jobs: ClaimedJob[] = []
  #deliveries: Delivery[] = []
  #next: Promise<void> | null = null

  constructor(write: Write) {
    this.#write = write
  }

  record(jobs: readonly ClaimedJob[], deliveries: readonly Delivery[]): Promise<void> {
    this.#jobs.push(...jobs)
    this.#deliveries.push(...deliveries)
    this.#next ??= this.#writeAll()
    return this.#next
  }

  async #writeAll(): Promise<void> {
    await turn()
    const [jobs, deliveries] = [this.#jobs, this.#deliveries]
    this.#jobs = []
    this.#deliveries = []
    this.#next = null
    await this.#write(jobs, deliveries)
  }
}
