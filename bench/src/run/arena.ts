import type { ContenderOptions } from '../contender.js'
import type { ContenderName, PawlVariant } from '../contenders/registry.js'
import { POOL_SIZE } from '../limits.js'
import type { ProviderCommands } from '../provider/commands.js'
import { Child } from './child.js'
import type { BenchDatabase } from './database.js'
import { Entrant, type Worker } from './entrant.js'

/** What an entrant gets that differs from the default. */
export type EntrantOptions = Partial<Pick<ContenderOptions, 'databaseUrl' | 'poolSize' | 'providerDelayMs'>>

/** Everything that runs during the bench: the database, the provider, and a process for each contender. */
export class Arena {
  readonly database: BenchDatabase
  readonly provider: Child<ProviderCommands>
  readonly #providerUrl: string
  readonly #workers = new Map<string, Promise<{ readonly worker: Worker; readonly title: string }>>()
  readonly #children: { stop(): Promise<void> }[]

  private constructor(database: BenchDatabase, provider: Child<ProviderCommands>, providerUrl: string) {
    this.database = database
    this.provider = provider
    this.#providerUrl = providerUrl
    this.#children = [provider]
  }

  static async create(database: BenchDatabase): Promise<Arena> {
    const provider = new Child<ProviderCommands>('the provider', 'provider/main.js')
    return new Arena(database, provider, await provider.ask('listen', null))
  }

  /** Opens a contender. Its process is started, and its tables made, when it is first asked for. */
  async enter(name: ContenderName | PawlVariant, options: EntrantOptions = {}): Promise<Entrant> {
    const { worker, title } = await this.#worker(name)
    const opened = await worker.ask('open', this.#optionsOf(options))
    if (opened.url === null) return new Entrant(name, title, { worker, handle: opened.handle }, null)
    const sender = this.#start(`the sender of requests to ${name}`)
    const { url, createdStatus } = opened
    const { handle } = await sender.ask('connect', { url, createdStatus })
    return new Entrant(name, title, { worker, handle: opened.handle }, { worker: sender, handle })
  }

  /** Opens a contender that is called as a library in a process that has done nothing else. `stop` ends that process. */
  async enterNew(
    name: ContenderName,
  ): Promise<{ readonly entrant: Entrant; readonly stop: () => Promise<void> }> {
    const { title } = await this.#worker(name)
    const worker = this.#start(name, [name])
    const { handle } = await worker.ask('open', this.#optionsOf({}))
    const entrant = new Entrant(name, title, { worker, handle }, null)
    return {
      entrant,
      stop: async () => {
        await entrant.close()
        await worker.stop()
      },
    }
  }

  #optionsOf(options: EntrantOptions): ContenderOptions {
    return {
      databaseUrl: this.database.url,
      providerUrl: this.#providerUrl,
      poolSize: POOL_SIZE,
      providerDelayMs: 0,
      ...options,
    }
  }

  /** Leaves the machine to this contender: all others stand still until they are asked again. */
  async leaveTo(entrant: Entrant): Promise<void> {
    const workers = await Promise.all(this.#workers.values())
    await Promise.all(
      workers.map(async ({ worker }) => (entrant.isIn(worker) ? worker.thaw() : worker.freeze())),
    )
  }

  async close(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.stop()))
  }

  #worker(name: ContenderName | PawlVariant): Promise<{ readonly worker: Worker; readonly title: string }> {
    let known = this.#workers.get(name)
    if (known === undefined) {
      const worker = this.#start(name, [name])
      known = worker.ask('prepare', { databaseUrl: this.database.url }).then((title) => ({ worker, title }))
      this.#workers.set(name, known)
    }
    return known
  }

  #start(name: string, args: readonly string[] = []): Worker {
    const child: Worker = new Child(name, 'worker.js', args)
    this.#children.push(child)
    return child
  }
}
