import { type Operator, safeError } from '@pawl/core'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Pool } from 'pg'
import { ConsoleError } from './console-error.js'
import { operatorOn } from './operator-on.js'
import type { ConsoleSettings } from './console-options.js'
import { LiveFlow } from './live-flow.js'
import { readFailure } from './read-failure.js'
import { readOnlyPoolLike } from './read-only-pool.js'
import type { SignedIn } from './user.js'

/** What the routes of one console share. */
export class ConsoleContext {
  readonly settings: ConsoleSettings
  /** Only reads: its connections cannot do anything else. */
  readonly reader: Operator
  /** Makes the changes that people ask for. */
  readonly changer: Operator
  readonly live: LiveFlow
  readonly #readPool: Pool
  readonly #users = new WeakMap<FastifyRequest, SignedIn>()

  constructor(settings: ConsoleSettings, log: FastifyBaseLogger) {
    this.settings = settings
    this.#readPool = settings.readPool ?? readOnlyPoolLike(settings.pool)
    this.reader = operatorOn(this.#readPool, settings)
    this.changer = operatorOn(settings.pool, settings)
    this.live = new LiveFlow({
      read: () => this.reader.flow(),
      explain: (error) => readFailure(error, settings.schema),
      onGone: (error) => log.error({ err: safeError(error) }, 'the console cannot read where requests stand'),
      pollMs: settings.pollMs,
    })
  }

  signIn(request: FastifyRequest, user: SignedIn): void {
    this.#users.set(request, user)
  }

  /** Whoever sent the request: the hook has let nobody else through. */
  userOf(request: FastifyRequest): SignedIn {
    const user = this.#users.get(request)
    if (user === undefined) throw new ConsoleError('unauthenticated', 'Nobody is signed in.')
    return user
  }

  /** The database's clock: leases and ages are counted by it. */
  async now(): Promise<Date> {
    const { rows } = await this.#readPool.query<{ now: Date }>('SELECT pg_catalog.clock_timestamp() AS now')
    return rows[0]?.now ?? new Date()
  }

  async close(): Promise<void> {
    await this.live.close()
    if (this.settings.readPool === null) await this.#readPool.end()
  }
}
