/** How the tables lie: as one table each, in partitions on one server, or on several servers. */
export type Lies = 'together' | 'in_partitions' | 'over_servers'

/**
 * Whether the tables are on the server that we talk to, or whether it passes statements on to other servers, as Citus
 * does. One for each engine or operator; learnt from the schema at the first connection.
 */
export class Spread {
  #lies: Lies | null = null

  get isKnown(): boolean {
    return this.#lies !== null
  }

  /** Until it is known, we go by what is true of almost everybody. What differs fails then, and does no harm. */
  get overServers(): boolean {
    return this.#lies === 'over_servers'
  }

  get inPartitions(): boolean {
    return this.#lies === 'in_partitions'
  }

  learn(lies: Lies): void {
    this.#lies = lies
  }

  /** Somebody has changed it, and it has to be learnt again. */
  forget(): void {
    this.#lies = null
  }
}
