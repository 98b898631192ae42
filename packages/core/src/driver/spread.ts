/** How the tables lie: as one table each, in partitions on one server, or on several servers. */
export type Lies = 'together' | 'in_partitions' | 'over_servers'

/**
 * Whether the tables are on the server that we talk to, or whether it passes statements on to other servers, as Citus
 * does. One for each engine or operator; learnt from the schema at the first connection.
 */
export class Spread {
  #lies: Lies | null = null
  #isDoubtful = false

  get isKnown(): boolean {
    return this.#lies !== null && !this.#isDoubtful
  }

  /** Until it is known, we go by what is true of almost everybody; while it is doubtful, by what was last known. */
  get overServers(): boolean {
    return this.#lies === 'over_servers'
  }

  get inPartitions(): boolean {
    return this.#lies === 'in_partitions'
  }

  learn(lies: Lies): void {
    this.#lies = lies
    this.#isDoubtful = false
  }

  /** Somebody may have changed it, and it has to be learnt again. */
  doubt(): void {
    this.#isDoubtful = true
  }
}
