import type { Outgoing } from './outgoing.js'

/** Statements of one transaction whose results nobody needs: each waits for the next message, and travels in it. */
export class LaterWrites {
  #waiting: Outgoing[] = []
  /** Those that have not been executed so far, and who handed over each of them. */
  readonly #unwritten = new Map<Outgoing, string>()

  get areWaiting(): boolean {
    return this.#waiting.length > 0
  }

  add(statement: Outgoing, of: string): void {
    this.#waiting.push(statement)
    this.#unwritten.set(statement, of)
  }

  /** Returns those that travel with the message that is sent now. */
  take(): readonly Outgoing[] {
    if (this.#waiting.length === 0) return NONE
    const taken = this.#waiting
    this.#waiting = []
    return taken
  }

  /** None of those that wait will be sent. */
  drop(): void {
    this.#waiting = []
  }

  noteExecuted(statements: readonly Outgoing[]): void {
    if (this.#unwritten.size === 0) return
    for (const statement of statements) this.#unwritten.delete(statement)
  }

  /** Returns who handed over a statement that has not been executed; null if it was not handed over here. */
  ownerOf(statement: Outgoing | undefined): string | null {
    return statement === undefined ? null : (this.#unwritten.get(statement) ?? null)
  }

  /**
   * Returns who handed over a statement that would be missing if this message committed; null if none would. A statement is
   * missing when its error went to the query that it travelled with, and whoever awaited that query has swallowed it.
   */
  missingFrom(message: readonly Outgoing[]): string | null {
    if (this.#unwritten.size === 0) return null
    const sent = new Set(message)
    for (const [statement, of] of this.#unwritten) if (!sent.has(statement)) return of
    return null
  }
}

const NONE: readonly never[] = []
