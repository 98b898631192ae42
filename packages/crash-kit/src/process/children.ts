import { KitError } from '../kit-error.js'
import { CHILD_TIMEOUT_MS } from '../limits.js'
import { childError } from './child-error.js'
import type { CheckedChild } from './child-options.js'
import type { ChildMessage, ChildStart } from './messages.js'
import { type ChildEnd, RunningChild } from './running-child.js'

/** The child processes of one kit. None outlives it. */
export class Children {
  readonly options: CheckedChild
  /** Null if the kit has no provider. */
  readonly providerUrl: string | null
  readonly #timeoutMs: number
  readonly #running = new Set<RunningChild>()

  constructor(options: CheckedChild, providerUrl: string | null, timeoutMs = CHILD_TIMEOUT_MS) {
    this.options = options
    this.providerUrl = providerUrl
    this.#timeoutMs = timeoutMs
  }

  /** Starts a child and waits for its end. Awaits `onMessage` for each of its messages, one after the other. */
  async run(start: ChildStart, onMessage: (message: ChildMessage) => Promise<void>): Promise<ChildEnd> {
    const child = new RunningChild(this.options.execArgv, start, onMessage)
    const timer = setTimeout(() => child.stop(this.#hangs(child.stderr)), this.#timeoutMs)
    this.#running.add(child)
    try {
      return await child.ended
    } finally {
      clearTimeout(timer)
      this.#running.delete(child)
    }
  }

  /** Kills those that are running. */
  async close(): Promise<void> {
    const running = [...this.#running]
    const closed = new KitError('PAWL_KIT_CHILD', 'The kit was closed while a child process ran.')
    for (const child of running) child.stop(closed)
    await Promise.allSettled(running.map(({ ended }) => ended))
  }

  #hangs(stderr: string): KitError {
    return childError(this.options, `it did not end within ${this.#timeoutMs} ms, and was killed.`, stderr)
  }
}
