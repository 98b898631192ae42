/** What every contender gets: the same database, the same provider, and the same number of connections. */
export interface ContenderOptions {
  readonly databaseUrl: string
  readonly providerUrl: string
  /** Connections for requests. */
  readonly poolSize: number
  /** How long the provider takes to charge. */
  readonly providerDelayMs: number
}

/** What a request is answered with. */
export interface Answer {
  readonly status: number
  readonly body: string
}

/** A contender that is ready for requests. */
export interface Opened {
  /** Creates a ride, charges for it and stages its receipt, under this key. */
  request(key: string): Promise<Answer>
  /**
   * Where it listens, if requests come over HTTP. Timed requests are then sent by another process, whose CPU time is
   * not counted.
   */
  readonly url?: string
  /** What it answers there to a ride that was created, if that is not 201. */
  readonly createdStatus?: number
  /** What else a scenario may ask of it, by name. */
  readonly controls?: Readonly<Record<string, (argument: unknown) => Promise<unknown>>>
  /** Stops the processes that it has started, while another contender has its turn. Synchronous, as its own stop is. */
  pause?(): void
  resume?(): void
  close(): Promise<void>
}

/**
 * One way to do the same job: insert a ride, charge the card at the provider, store the charge on the ride and write a
 * job for the receipt, answer. Written as its own documentation would.
 */
export interface Contender {
  /** As in `--only pawl,dbos` and in the names of its tables' schema. */
  readonly name: string
  /** For people. */
  readonly title: string
  /** Creates its tables in its own schema, and drops what an earlier run left there. */
  prepare(databaseUrl: string): Promise<void>
  open(options: ContenderOptions): Promise<Opened>
}
