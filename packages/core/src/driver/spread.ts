/**
 * Whether the tables are on the server that we talk to, or whether it passes statements on to other servers, as Citus
 * does. One for each engine or operator; learnt from the schema at the first connection.
 */
export class Spread {
  #overServers: boolean | null = null

  get isKnown(): boolean {
    return this.#overServers !== null
  }

  /** Until it is known, we go by what is true of almost everybody. What differs fails then, and does no harm. */
  get overServers(): boolean {
    return this.#overServers ?? false
  }

  learn(overServers: boolean): void {
    this.#overServers = overServers
  }

  /** Somebody has changed it, and it has to be learnt again. */
  forget(): void {
    this.#overServers = null
  }
}
