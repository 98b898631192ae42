import { announce, type ServiceName } from '../announce/announce.js'
import { type TracingSlot, traceRound } from '../announce/tracing.js'
import { checkKnownOptions, checkTimerMs, type OptionOwner } from '../check-option.js'
import { DEFAULT_STOP_TIMEOUT_MS, ROUND_RETRY_BASE_MS, ROUND_RETRY_MAX_MS } from '../limits.js'
import { settledWithin } from '../settled-within.js'

/** Work that goes on beside requests. Any number of processes may run it at once. */
export interface Service<Counts> {
  /** Looks for work from now on, until stopped. Does nothing if it is already started. */
  start(): void
  /** Begins nothing new and waits for what is under way, but no longer than `timeoutMs` (default 10 s). */
  stop(options?: StopOptions): Promise<void>
  /** One round, now, whether started or not. Throws what a started service would report and try again. */
  runOnce(): Promise<Counts>
}

/** How a service is stopped. */
export interface StopOptions {
  /** How long to wait for what is under way. Default 10 s. */
  readonly timeoutMs?: number
}

/** The result of one round, and whether the next one is certain to have work. */
interface Round {
  /** Null: there is nothing to report yet. */
  readonly counts: Readonly<Record<string, number>> | null
  readonly more: boolean
}

/** What a service passes in order to be called at intervals. */
interface PollerOptions {
  readonly service: ServiceName
  /** Of the engine that it works beside. */
  readonly tracing: TracingSlot
  readonly pollMs: number
  readonly round: (stopping: AbortSignal) => Promise<Round>
  /** What a round began but did not wait for. */
  readonly underWay?: ReadonlySet<Promise<unknown>>
}

/**
 * Runs rounds repeatedly: at once while there is more, otherwise after a pause with jitter, so that many processes do not
 * look at the same moment. A round that fails is reported and tried again, after a longer pause each time; it never ends
 * the loop.
 */
export class Poller {
  readonly #options: PollerOptions
  #loop: Promise<void> | null = null
  #stopping = new AbortController()
  #wakeUp: (() => void) | null = null
  #isWoken = false

  constructor(options: PollerOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#loop !== null && !this.#stopping.signal.aborted) return
    this.#stopping = new AbortController()
    this.#loop = this.#run(this.#stopping.signal)
  }

  /** The next round begins at once. */
  wake(): void {
    this.#isWoken = true
    this.#wakeUp?.()
  }

  async stop(options: StopOptions = {}): Promise<void> {
    const timeoutMs = checkStopOptions(options)
    this.#stopping.abort()
    this.#wakeUp?.()
    const { underWay = new Set(), service } = this.#options
    const loop = this.#loop
    const ended = await settledWithin(timeoutMs, loop === null ? underWay : new Set([loop, ...underWay]))
    // It may have been started again meanwhile.
    if (this.#loop === loop) this.#loop = null
    if (ended) return
    const message = `the ${service} was stopped before everything that it had begun was done`
    announce('pawl:warning', () => ({ message, error: null }))
  }

  async #run(stopping: AbortSignal): Promise<void> {
    let failures = 0
    while (!stopping.aborted) {
      this.#isWoken = false
      const end = await this.#tryRound(stopping, failures)
      failures = end === 'failed' ? failures + 1 : 0
      // A wake-up must not hurry a database that is away.
      if (end === 'failed') await this.#pause(retryPauseMs(failures), stopping, false)
      else if (end === 'idle') await this.#pause(pollPauseMs(this.#options.pollMs), stopping, true)
    }
  }

  async #tryRound(stopping: AbortSignal, failures: number): Promise<'more' | 'idle' | 'failed'> {
    const { service, round, tracing } = this.#options
    try {
      const { counts, more } = await traceRound(tracing, service, () => round(stopping))
      if (counts !== null) announce('pawl:round', () => ({ service, counts }))
      return more ? 'more' : 'idle'
    } catch (error) {
      announce('pawl:round_failed', () => ({ service, error, failures: failures + 1 }))
      return 'failed'
    }
  }

  async #pause(ms: number, stopping: AbortSignal, canBeWoken: boolean): Promise<void> {
    if (stopping.aborted || (canBeWoken && this.#isWoken)) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wakeUp = () => {
        if (!canBeWoken && !stopping.aborted) return
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wakeUp = null
  }
}

/** Never longer than the interval, which is what an operator counts on. */
function pollPauseMs(pollMs: number): number {
  return pollMs * (0.5 + Math.random() / 2)
}

function retryPauseMs(failures: number): number {
  const capMs = Math.min(ROUND_RETRY_MAX_MS, ROUND_RETRY_BASE_MS * 2 ** Math.min(failures, 30))
  return capMs * (0.5 + Math.random() / 2)
}

export function checkStopOptions(options: StopOptions): number {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'stop' }
  checkKnownOptions(owner, options, ['timeoutMs'])
  checkTimerMs(owner, 'timeoutMs', options.timeoutMs, 0)
  return options.timeoutMs ?? DEFAULT_STOP_TIMEOUT_MS
}
