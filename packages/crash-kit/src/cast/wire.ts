import pg from 'pg'

/** What becomes of the next statement that a client sends. */
export type WireFault =
  /** It is executed, and the connection breaks before its answer arrives. */
  | 'answerLost'
  /** The connection breaks before it reaches the server. */
  | 'statementLost'

/** The connections of one actor's pool: loses what it is told to lose, and tells of errors that the server sent. */
export class Wire {
  #armed: { readonly fault: WireFault; readonly struck: () => void } | null = null
  #waiting: { readonly sqlState: string; readonly seen: () => void }[] = []

  /** Arms a fault for the next statement, whichever client sends it. `struck` is called when it has happened. */
  arm(fault: WireFault, struck: () => void): void {
    this.#armed = { fault, struck }
  }

  /** Resolves when the server has answered with this error, from now on. */
  whenRefused(sqlState: string): Promise<void> {
    return new Promise((seen) => {
      this.#waiting.push({ sqlState, seen })
    })
  }

  /** Forgets what was armed and waited for: for the next case. */
  reset(): void {
    this.#armed = null
    this.#waiting = []
  }

  /** @internal for its clients */
  take(): { readonly fault: WireFault; readonly struck: () => void } | null {
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

/** The class of clients that a pool on this wire makes. */
export function clientOn(wire: Wire): typeof pg.Client {
  class WiredClient extends pg.Client {
    readonly #send = super.query.bind(this) as unknown as Query

    override query = ((...parameters: unknown[]): unknown => {
      const armed = wire.take()
      if (armed === null) {
        const sent = this.#send(...parameters)
        if (sent instanceof Promise) sent.catch((error: unknown) => wire.refused(error))
        return sent
      }
      return this.#lose(armed, parameters)
    }) as pg.Client['query']

    async #lose(armed: { fault: WireFault; struck: () => void }, parameters: unknown[]): Promise<never> {
      if (armed.fault === 'answerLost') await this.#send(...parameters)
      cut(this)
      armed.struck()
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    }
  }
  return WiredClient
}

/** Cuts a connection as the end of a process would: no Terminate message, no ROLLBACK. */
function cut(client: pg.Client): void {
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}

/** Cuts all connections of a pool. */
export function cutAll(pool: pg.Pool): void {
  const { _clients: clients } = pool as unknown as { _clients: pg.Client[] }
  for (const client of clients) cut(client)
}
