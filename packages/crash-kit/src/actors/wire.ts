import pg from 'pg'

/** What happens to the next statement that a client sends. */
export type WireFault =
  /** It is executed, and the connection breaks before its answer arrives. */
  | 'answerLost'
  /** The connection breaks before it reaches the server. */
  | 'statementLost'

interface Armed {
  readonly fault: WireFault
  readonly struck: () => void
}

/** The connections of one actor's pool. Loses statements or answers on demand, and reports errors that the server sent. */
export class Wire {
  #armed: Armed | null = null
  #waiting: { readonly sqlState: string; readonly seen: () => void }[] = []

  /** Arms a fault for the next statement, whichever client sends it. Calls `struck` when it has happened. */
  arm(fault: WireFault, struck: () => void): void {
    this.#armed = { fault, struck }
  }

  /** Resolves the next time that the server answers with this error. */
  whenRefused(sqlState: string): Promise<void> {
    return new Promise((seen) => {
      this.#waiting.push({ sqlState, seen })
    })
  }

  /** Forgets armed faults and waiting callers, for the next case. */
  reset(): void {
    this.#armed = null
    this.#waiting = []
  }

  /** @internal for its clients */
  take(): Armed | null {
    const armed = this.#armed
    this.#armed = null
    return armed
  }

  /** @internal for its clients */
  refused(error: unknown): void {
    const { code } = error as { code?: unknown }
    if (typeof code !== 'string') return
    for (const waiting of this.#waiting.filter(({ sqlState }) => sqlState === code)) waiting.seen()
    this.#waiting = this.#waiting.filter(({ sqlState }) => sqlState !== code)
  }
}

type Query = (...parameters: unknown[]) => unknown
type Callback = (error: unknown, result?: unknown) => void

/** Statements that are sent together: an object that sends itself, and calls back. */
interface Batch {
  callback: Callback
  submit(): void
}

function isBatch(value: unknown): value is Batch {
  return typeof value === 'object' && value !== null && 'submit' in value && 'callback' in value
}

/** Returns the class of clients for a pool on this wire. */
export function clientOn(wire: Wire): typeof pg.Client {
  class WiredClient extends pg.Client {
    readonly #send = super.query.bind(this) as unknown as Query

    override query = ((...parameters: unknown[]): unknown => {
      const armed = wire.take()
      const [batch] = parameters
      if (isBatch(batch)) {
        const { callback } = batch
        batch.callback = (error, result) => callback(this.#answered(armed, error), result)
        if (armed?.fault !== 'statementLost') return this.#send(...parameters)
        // Not at once, because an answer would not come at once either.
        queueMicrotask(() => batch.callback(this.#lose(armed)))
        return batch
      }
      if (armed !== null) return this.#sendArmed(armed, parameters)
      const sent = this.#send(...parameters)
      // Only observed: the sender gets the very same promise, in the same turn as without a wire.
      if (sent instanceof Promise) sent.catch((error: unknown) => wire.refused(error))
      return sent
    }) as pg.Client['query']

    async #sendArmed(armed: Armed, parameters: readonly unknown[]): Promise<unknown> {
      if (armed.fault === 'statementLost') throw this.#lose(armed)
      let error: unknown
      try {
        await this.#send(...parameters)
      } catch (thrown) {
        error = thrown
      }
      throw this.#answered(armed, error)
    }

    /** Returns the error that the sender gets: the server's own or none, unless the answer is lost. */
    #answered(armed: Armed | null, error: unknown): unknown {
      if (error != null) wire.refused(error)
      return armed?.fault === 'answerLost' && error == null ? this.#lose(armed) : error
    }

    #lose(armed: Armed): Error {
      cut(this)
      armed.struck()
      return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    }
  }
  return WiredClient
}

/** Cuts a connection as the end of a process would: without a Terminate message or a ROLLBACK. */
function cut(client: pg.Client): void {
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}

/** Cuts all connections of a pool. */
export function cutAll(pool: pg.Pool): void {
  const { _clients: clients } = pool as unknown as { _clients: pg.Client[] }
  for (const client of clients) cut(client)
}
