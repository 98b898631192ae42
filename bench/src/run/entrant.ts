import type { Child } from './child.js'
import type { EachPlan, LoadPlan, LoadResult } from './load.js'
import type { WorkerCommands } from './worker-commands.js'

export type Worker = Child<WorkerCommands>

/** One opened contender in its process. */
interface Place {
  readonly worker: Worker
  readonly handle: number
}

/** A contender that is ready for requests, seen from the bench. */
export class Entrant {
  readonly label: string
  readonly title: string
  readonly #place: Place
  /** Who sends its requests: itself, unless they come over HTTP. */
  readonly #sender: Place
  readonly #hasSender: boolean

  constructor(label: string, title: string, place: Place, sender: Place | null) {
    this.label = label
    this.title = title
    this.#place = place
    this.#sender = sender ?? place
    this.#hasSender = sender !== null
  }

  isIn(worker: Worker): boolean {
    return worker === this.#place.worker
  }

  load(plan: LoadPlan): Promise<LoadResult> {
    const { worker, handle } = this.#sending()
    return worker.ask('load', { handle, plan })
  }

  /** Sends every key once. */
  async each(plan: EachPlan): Promise<void> {
    const { worker, handle } = this.#sending()
    await worker.ask('each', { handle, plan })
  }

  /** Sends requests and does not wait for them. */
  async begin(keys: readonly string[]): Promise<void> {
    const { worker, handle } = this.#sending()
    await worker.ask('begin', { handle, keys })
  }

  /** The statuses of what was begun, once all of it has ended. */
  awaitBegun(): Promise<readonly number[]> {
    return this.#sender.worker.ask('awaitBegun', null)
  }

  control(name: string, argument: unknown = null): Promise<unknown> {
    const { worker, handle } = this.#place
    return worker.ask('control', { handle, name, argument })
  }

  /** CPU time of the contender's process so far, in milliseconds. */
  cpu(): Promise<number> {
    return this.#place.worker.ask('cpu', null)
  }

  async close(): Promise<void> {
    const { worker, handle } = this.#place
    await worker.ask('close', { handle })
    if (this.#hasSender) await this.#sender.worker.stop()
  }

  /** Whoever sends: what listens has to be awake for it. */
  #sending(): Place {
    this.#place.worker.thaw()
    return this.#sender
  }
}
