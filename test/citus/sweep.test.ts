import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ProtocolProxy, type Verdict } from '../wire/protocol-proxy.js'
import { CitusDatabase, CitusRide, describeOnCitus, ONE_OF_EACH, type Worker } from './citus-database.js'

/** What becomes of one message. */
const FAULTS: Readonly<Record<string, Verdict>> = {
  'cut before it': { cut: 'both', when: 'before' },
  'lost to the client after it': { cut: 'client', when: 'after', reset: true },
  'cut after it': { cut: 'both', when: 'after' },
}

/** Enough to outlast a message whose sender is gone, and short enough to wait for. */
const LEASE_MS = 2_000

/** Longer than a ride that nobody disturbs lets a connection wait, and short, as each ride opens some. */
const IDLE_MS = 2_000

/** A ride for each of some hundred messages, with connections of its own; some of them outlast a lease. */
const SWEEP_TIMEOUT_MS = 900_000

/** Where rides go whose messages are struck, and for which scopes. */
interface Route {
  readonly proxy: ProtocolProxy
  readonly url: string
  scope(): Promise<string>
}

describeOnCitus('a connection that is', () => {
  const database = new CitusDatabase()
  /** Nobody disturbs it. */
  let calm: pg.Pool
  beforeAll(async () => {
    await database.expectReadableConnections()
    await database.create()
    calm = database.pool({ max: 8 })
  })
  afterAll(() => database.drop())

  /** Executes a ride while one message, the nth that the proxy sees, meets its fault. Returns how many it saw. */
  async function strike({ proxy, url }: Route, ride: CitusRide, nth: number, verdict: Verdict) {
    const pool = database.pool({ connectionString: url, max: 3, idleTimeoutMillis: IDLE_MS })
    const engine = ride.engine(pool, LEASE_MS)
    let seen = 0
    proxy.decide = () => (seen++ === nth ? verdict : 'pass')
    await ride.execute(engine)
    proxy.decide = null
    await engine.close({ timeoutMs: 0 })
    return seen
  }

  /** A client that comes back until it has its answer. */
  async function comeBack(ride: CitusRide) {
    const engine = ride.engine(calm, LEASE_MS)
    for (;;) {
      const { type } = await ride.execute(engine)
      if (type === 'completed' || type === 'replayed') break
      if (type === 'stuck' || type === 'mismatch' || type === 'refused') throw new Error(`unexpected ${type}`)
      await database.rows(
        `UPDATE pawl.idempotency_keys SET lease_until = statement_timestamp() - interval '1 ms'
          WHERE scope = $1 AND key = $2 AND lease_until IS NOT NULL`,
        [ride.scope, ride.key],
      )
    }
    await engine.close()
  }

  /** The routes share the messages. */
  async function sweep(routes: readonly [Route, ...Route[]], verdict: Verdict) {
    const messages = await strike(routes[0], new CitusRide(database, await routes[0].scope()), -1, verdict)
    expect(messages).toBeGreaterThan(30)
    let next = 0
    const follow = async (route: Route) => {
      while (next < messages) {
        const nth = next++
        const ride = new CitusRide(database, await route.scope())
        await strike(route, ride, nth, verdict)
        await comeBack(ride)
        expect([nth, await ride.traces()]).toEqual([nth, ONE_OF_EACH])
      }
    }
    await Promise.all(routes.map(follow))
  }

  describe.each(Object.entries(FAULTS))('%s', (_, verdict) => {
    const betweenEngineAndCoordinator = async () => {
      const url = new URL(database.url)
      const target = { host: url.hostname, port: Number(url.port) }
      const open = async (): Promise<Route> => {
        const proxy = await ProtocolProxy.start(target)
        url.port = String(proxy.port)
        return { proxy, url: url.href, scope: () => Promise.resolve(new CitusRide(database).scope) }
      }
      const routes: [Route, ...Route[]] = [await open(), await open(), await open(), await open()]
      await sweep(routes, verdict)
      for (const { proxy } of routes) await proxy.close()
    }
    test(
      'at any message between engine and coordinator leaves one of each',
      betweenEngineAndCoordinator,
      SWEEP_TIMEOUT_MS,
    )

    const betweenCoordinatorAndWorker = async () => {
      const worker = (await database.workers())[0] as Worker
      const proxy = await ProtocolProxy.start({ host: worker.nodename, port: worker.nodeport })
      await database.pointTo(worker, proxy.port)
      try {
        const scope = () => database.scopeOn({ ...worker, nodeport: proxy.port })
        await sweep([{ proxy, url: database.url, scope }], verdict)
      } finally {
        await database.pointTo(worker, worker.nodeport)
        await proxy.close()
      }
    }
    test(
      'at any message between coordinator and worker leaves one of each',
      betweenCoordinatorAndWorker,
      SWEEP_TIMEOUT_MS,
    )
  })
})
