import type { Flow } from '@pawl/core'
import { useEffect, useState } from 'preact/hooks'
import type { AsJson, StreamEvents } from '../../src/api.js'
import type { ConsoleErrorCode } from '../../src/console-error.js'
import { ApiError } from '../api/api-error.js'
import { apiUrl, getSession } from '../api/client.js'
import { clock } from './clock.js'

export type FlowNow = AsJson<Flow>

/** How the page is connected. The last flow stays while it is not. */
export interface LiveState {
  /**
   * `reconnecting`: the console does not answer. `away`: it does, and the database does not, or cannot be asked. `signed_out`: whoever
   * looks has to sign in again.
   */
  readonly connection: 'connecting' | 'live' | 'reconnecting' | 'away' | 'signed_out'
  readonly flow: FlowNow | null
  /** Why it is not live, if the console said so. */
  readonly failure: ApiError | null
}

/** Streams end every few minutes and come back at once: only a longer break is worth telling. */
const TELL_AFTER_MS = 4_000
/** A stream that was refused is asked for again by us; the browser gives it up. */
const RETRY_MS = 5_000
/** A page that nobody looks at listens for as long, so that going back and forth between tabs costs nothing. */
const HIDDEN_MS = 60_000

class LiveFlow {
  #state: LiveState = { connection: 'connecting', flow: null, failure: null }
  readonly #listeners = new Set<(state: LiveState) => void>()
  #source: EventSource | null = null
  #tell: number | null = null
  #retry: number | null = null
  #hide: number | null = null

  get state(): LiveState {
    return this.#state
  }

  listen(listener: (state: LiveState) => void): () => void {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) {
      document.addEventListener('visibilitychange', this.#onVisibility)
      this.#open()
    }
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      document.removeEventListener('visibilitychange', this.#onVisibility)
      this.#close()
    }
  }

  /** Tries at once, and not when it would have tried anyway. */
  reconnect(): void {
    this.#close()
    this.#open()
  }

  readonly #onVisibility = (): void => {
    if (this.#hide !== null) window.clearTimeout(this.#hide)
    this.#hide = null
    if (document.hidden) this.#hide = window.setTimeout(() => this.#close(), HIDDEN_MS)
    else if (this.#source === null) this.#open()
  }

  #open(): void {
    const source = new EventSource(apiUrl('events'))
    this.#source = source
    this.#tellSoon()
    source.addEventListener('flow', ({ data }: MessageEvent<string>) => {
      const flow = JSON.parse(data) as AsJson<StreamEvents>['flow']
      clock.observe(flow.at)
      this.#quiet()
      this.#set({ connection: 'live', flow, failure: null })
    })
    source.addEventListener('gone', ({ data }: MessageEvent<string>) => {
      const { code, message } = JSON.parse(data) as AsJson<StreamEvents>['gone']
      this.#quiet()
      this.#set({ connection: 'away', failure: new ApiError(code as ConsoleErrorCode, message) })
    })
    source.addEventListener('error', () => {
      this.#tellSoon()
      if (source.readyState === EventSource.CLOSED && source === this.#source) void this.#askWhy()
    })
  }

  /** A stream that is refused does not say why; a request does. */
  async #askWhy(): Promise<void> {
    this.#close()
    const failure = await getSession().then(
      () => null,
      (error: unknown) => (error instanceof ApiError ? error : null),
    )
    if (failure?.code === 'unauthenticated') return this.#set({ connection: 'signed_out', failure })
    this.#retry = window.setTimeout(() => this.#open(), RETRY_MS)
  }

  #tellSoon(): void {
    this.#tell ??= window.setTimeout(() => {
      this.#set({ connection: 'reconnecting', failure: null })
    }, TELL_AFTER_MS)
  }

  #quiet(): void {
    if (this.#tell !== null) window.clearTimeout(this.#tell)
    this.#tell = null
  }

  #close(): void {
    this.#source?.close()
    this.#source = null
    if (this.#retry !== null) window.clearTimeout(this.#retry)
    this.#retry = null
  }

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change }
    for (const listener of this.#listeners) listener(this.#state)
  }
}

export const liveFlow = new LiveFlow()

/** Where requests stand, as it changes. All that use it share one stream. */
export function useLiveFlow(): LiveState {
  const [state, setState] = useState(liveFlow.state)
  useEffect(() => liveFlow.listen(setState), [])
  return state
}
