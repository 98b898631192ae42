import type { Flow } from '@pawl/core'
import type { ConsoleError } from './console-error.js'
import { MAX_FLOW_AGE_MS, MAX_POLL_SHARE } from './limits.js'

/** What the last poll found. */
export type FlowNews =
  | { readonly type: 'flow'; readonly flow: Flow }
  | { readonly type: 'gone'; readonly failure: ConsoleError }

export interface LiveFlowOptions {
  readonly read: () => Promise<Flow>
  readonly explain: (error: unknown) => ConsoleError
  /** Called with the first failure after a success, and not with those that follow it. */
  readonly onGone: (error: unknown) => void
  readonly pollMs: number
}

/**
 * Where requests stand, read by one poll for everybody who looks, and by none while nobody does. What it costs the database does not
 * depend on how many look.
 */
export class LiveFlow {
  readonly #options: LiveFlowOptions
  readonly #listeners = new Set<(news: FlowNews) => void>()
  #latest: { readonly news: FlowNews; readonly at: number } | null = null
  #reading: Promise<FlowNews> | null = null
  #timer: NodeJS.Timeout | null = null
  #isPolling = false
  #closed = false

  constructor(options: LiveFlowOptions) {
    this.#options = options
  }

  /** The flow as it was at most two seconds ago. Several that ask at once share one query. */
  async current(): Promise<Flow> {
    const known = this.#fresh() ?? (await this.#read())
    if (known.type === 'flow') return known.flow
    throw known.failure
  }

  /** Calls `listener` with what every poll finds, and at once with what is known. Returns what ends that. */
  listen(listener: (news: FlowNews) => void): () => void {
    this.#listeners.add(listener)
    const known = this.#fresh()
    if (known !== null) listener(known)
    // Also while somebody else's question is being answered, after which nobody would ask again.
    if (this.#timer === null && !this.#isPolling) this.#poll()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** Ends the polls, and waits for the one that is under way. */
  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#stop()
    await this.#reading
  }

  #fresh(): FlowNews | null {
    const latest = this.#latest
    if (latest === null || performance.now() - latest.at > MAX_FLOW_AGE_MS) return null
    return latest.news
  }

  #poll(): void {
    this.#timer = null
    this.#isPolling = true
    const begun = performance.now()
    void this.#read().then((news) => {
      this.#isPolling = false
      for (const listener of this.#listeners) listener(news)
      if (this.#listeners.size === 0 || this.#closed || this.#timer !== null) return
      const tookMs = performance.now() - begun
      const waitMs = Math.max(this.#options.pollMs - tookMs, tookMs / MAX_POLL_SHARE - tookMs)
      this.#timer = setTimeout(() => this.#poll(), waitMs).unref()
    })
  }

  #stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  /** Never rejects. */
  #read(): Promise<FlowNews> {
    const { read, explain, onGone } = this.#options
    this.#reading ??= read()
      .then(
        (flow): FlowNews => ({ type: 'flow', flow }),
        (error: unknown): FlowNews => {
          if (this.#latest?.news.type !== 'gone') onGone(error)
          return { type: 'gone', failure: explain(error) }
        },
      )
      .then((news) => {
        this.#latest = { news, at: performance.now() }
        this.#reading = null
        return news
      })
    return this.#reading
  }
}
