import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ProtocolProxy, type Verdict } from '../wire/protocol-proxy.js'
import { CitusDatabase, CitusRide, describeOnCitus, ONE_OF_EACH, type Worker } from './citus-database.js'

/** What becomes of one message. */
const FAULTS: Readonly<Record<string, Verdict>> = {
  'cut before it': { cut: 'both', when: 'before' },
  'lost to the client after it': { cut: 'client', when: 'after', reset: true },
  'cut after it': { cut: 'both', when: 'after' },
}

const portOf = (url: string): number => Number(new URL(url).port)

/** Enough to outlast a message whose sender is gone, and short enough to wait for. */
const LEASE_MS = 2_000

describeOnCitus('a connection that is', () => {
  const database = new CitusDatabase()
  let worker: Worker
  beforeAll(() => database.create())
  afterAll(() => database.drop())

  /** Executes a ride while one message, the nth that the proxy sees, meets its fault. Returns how many it saw. */
  async function strike(proxy: ProtocolProxy, ride: CitusRide, url: string, nth: number, verdict: Verdict) {
    const pool = database.pool({ connectionString: url, max: 3 })
    const engine = ride.engine(pool, LEASE_MS)
    let seen = 0
    proxy.decide = () => (seen++ === nth ? verdict : 'pass')
    await ride.execute(engine)
    proxy.decide = null
    await engine.close({ timeoutMs: 0 })
    return seen
  }

  /** A client that comes back until it has its answer, on connections that nobody disturbs. */
  async function comeBack(ride: CitusRide) {
    const engine = ride.engine(database.pool({ max: 2 }), LEASE_MS)
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

  async function sweep(proxy: ProtocolProxy, url: string, scopeOf: () => Promise<string>, verdict: Verdict) {
    const clean = new CitusRide(database, await scopeOf())
    const messages = await strike(proxy, clean, url, -1, verdict)
    expect(messages).toBeGreaterThan(30)
    for (let nth = 0; nth < messages; nth++) {
      const ride = new CitusRide(database, await scopeOf())
      await strike(proxy, ride, url, nth, verdict)
      await comeBack(ride)
      expect([nth, await ride.traces()]).toEqual([nth, ONE_OF_EACH])
    }
  }

  describe.each(Object.entries(FAULTS))('%s', (_, verdict) => {
    let proxy: ProtocolProxy
    afterEach(() => proxy.close())

    test('at any message between engine and coordinator leaves one of each', async () => {
      const { hostname: host } = new URL(database.url)
      proxy = await ProtocolProxy.start({ host, port: portOf(database.url) })
      const url = new URL(database.url)
      url.port = String(proxy.port)
      await sweep(proxy, url.href, () => Promise.resolve(new CitusRide(database).scope), verdict)
    })
  })

  describe.each(Object.entries(FAULTS))('%s', (_, verdict) => {
    let proxy: ProtocolProxy
    beforeEach(async () => {
      worker = (await database.workers())[0] as Worker
      proxy = await ProtocolProxy.start({ host: worker.nodename, port: worker.nodeport })
      await database.pointTo(worker, proxy.port)
    })
    afterEach(async () => {
      await database.pointTo(worker, worker.nodeport)
      await proxy.close()
    })

    test('at any message between coordinator and worker leaves one of each', async () => {
      await sweep(proxy, database.url, () => database.scopeOn({ ...worker, nodeport: proxy.port }), verdict)
    })
  })
})
