import type pg from 'pg'

/** How many turns after an event are counted: more than anything here takes, and few enough to end. */
const MOST_TURNS = 120

interface Stream {
  write(...parameters: unknown[]): boolean
  prependListener(event: 'data', listener: () => void): void
}

/**
 * What happens on a pool's connections, in order and with its turn: how many rounds of the microtask queue have passed since
 * the last answer came or the last message was sent. One more `await` on the way changes the number.
 */
export class TurnLog {
  readonly #lines: string[] = []
  #turn = 0
  #counting = 0

  /** Watches every connection that the pool makes from now on. */
  watch(pool: pg.Pool): void {
    pool.on('connect', (client) => {
      const { stream } = (client as unknown as { connection: { stream: Stream } }).connection
      const write = stream.write.bind(stream)
      stream.write = (...parameters) => {
        this.mark(`sends ${sizeOf(parameters[0])} bytes`)
        this.#restart()
        return write(...parameters)
      }
      stream.prependListener('data', () => {
        this.mark('is answered', false)
        this.#restart()
      })
    })
  }

  /** Notes that something happened. What comes from outside has no turn. */
  mark(what: string, hasTurn = true): void {
    this.#lines.push(hasTurn ? `${what} in turn ${this.#turn}` : what)
  }

  begin(): void {
    this.#lines.length = 0
    this.#restart()
  }

  get lines(): readonly string[] {
    return [...this.#lines]
  }

  #restart(): void {
    const counting = ++this.#counting
    this.#turn = 0
    const next = (): void => {
      if (counting !== this.#counting || this.#turn >= MOST_TURNS) return
      this.#turn++
      queueMicrotask(next)
    }
    queueMicrotask(next)
  }
}

function sizeOf(written: unknown): number {
  return typeof written === 'string' || written instanceof Uint8Array ? written.length : 0
}
