import { createBackground } from '@pawl/core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { hear } from '../support/signals.js'
import { CitusDatabase, CitusRide, describeOnCitus, ONE_OF_EACH, type Worker } from './citus-database.js'

// They change which address the coordinator has for a worker, so they need a cluster that nobody else uses.
describeOnCitus('a server of the cluster', () => {
  const database = new CitusDatabase()
  let worker: Worker
  let other: Worker
  let proxy: PostgresProxy
  beforeAll(async () => {
    await database.expectReadableConnections()
    await database.create()
  })
  afterAll(() => database.drop())

  beforeEach(async () => {
    const workers = await database.workers()
    worker = workers[0] as Worker
    other = workers[1] as Worker
    const url = new URL(database.url)
    url.hostname = worker.nodename
    url.port = String(worker.nodeport)
    proxy = await PostgresProxy.start(url.href)
    await database.pointTo(worker, Number(new URL(proxy.url).port))
  })
  afterEach(async () => {
    await database.pointTo(worker, worker.nodeport)
    await proxy.close().catch(() => {})
  })

  test.each([
    ['landed', 'answer_lost', true],
    ['did not land', 'commit_lost', false],
  ] as const)('whose answer to COMMIT was lost: one that %s is recognized', async (_, fault, committed) => {
    const settled = hear('pawl:commit_settled')
    for (const nth of [1, 2, 3]) {
      const ride = new CitusRide(database, await database.scopeOn(await workerNow()))
      const engine = ride.engine()
      await engine.inspect(ride.scope, 'none')
      // The first COMMIT is that of the reservation.
      const struck = proxy.armCommit(fault, nth)
      const outcome = await ride.execute(engine)
      await struck
      expect([nth, outcome.type]).toEqual([nth, 'completed'])
      expect(await ride.traces()).toEqual(ONE_OF_EACH)
      expect((await ride.execute(engine)).type).toBe('replayed')
      await engine.close()
    }
    expect(settled.map((message) => message.committed)).toEqual([committed, committed, committed])
  })

  /** As the coordinator knows it now. */
  const workerNow = async () =>
    (await database.workers()).find(({ nodeid }) => nodeid === worker.nodeid) as Worker

  test('whose answer to a reservation was lost grants the key all the same', async () => {
    const ride = new CitusRide(database, await database.scopeOn(await workerNow()))
    const engine = ride.engine()
    await engine.inspect(ride.scope, 'none')
    const struck = proxy.armCommit('answer_lost')
    expect((await ride.execute(engine)).type).toBe('completed')
    await struck
    expect(await ride.traces()).toEqual(ONE_OF_EACH)
    await engine.close()
  })

  test('that is away stops nothing that lives on the others, and its keys go on when it is back', async () => {
    const { pipeline: shared, provider } = new CitusRide(database)
    const rideOn = async (on: Worker) => new CitusRide(database, await database.scopeOn(on), () => shared)
    const here = await rideOn(await workerNow())
    const there = await Promise.all(Array.from({ length: 3 }, () => rideOn(other)))
    const engine = here.engine()
    for (const ride of [here, ...there])
      await engine.enqueue(shared, { scope: ride.scope, key: ride.key, input: { amount: 1_200 } })
    await proxy.close()

    // A request of its own is refused as what it is, and leaves nothing behind.
    const lost = await rideOn(await workerNow())
    expect((await lost.execute(engine)).type).toBe('unavailable')
    // Requests, completer, relay and reaper of the others go on.
    const fresh = await rideOn(other)
    expect((await fresh.execute(engine)).type).toBe('completed')
    const delivered: string[] = []
    const background = createBackground({
      engine,
      relay: {
        sink: {
          deliver: (jobs) =>
            Promise.resolve(jobs.map(({ id }) => (delivered.push(id), { type: 'delivered' as const }))),
        },
      },
    })
    const { completer, reaper } = background
    const [relay] = background.relays
    let completed = 0
    while (completed < there.length) completed += (await completer?.runOnce())?.completed ?? 0
    while (delivered.length < 2 * (there.length + 1)) await relay?.runOnce()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = statement_timestamp() - interval '1 s' WHERE scope = $1 AND key = $2`,
      [fresh.scope, fresh.key],
    )
    expect(await reaper?.runOnce()).toMatchObject({ deleted: 1 })

    const [, port = ''] = /:(\d+)\//.exec(proxy.url) ?? []
    const target = new URL(database.url)
    target.port = String(worker.nodeport)
    proxy = await PostgresProxy.start(target.href, Number(port))
    while (completed < there.length + 1) completed += (await completer?.runOnce())?.completed ?? 0
    expect(await here.traces()).toMatchObject({ ...ONE_OF_EACH, charges: 0 })
    expect((await lost.execute(engine)).type).toBe('completed')
    expect(await provider.ledger()).toHaveLength(there.length + 3)
    await engine.close()
  })

  test('that stands still costs the others a moment, and no more', async () => {
    const { pipeline: shared } = new CitusRide(database)
    const here = new CitusRide(database, await database.scopeOn(await workerNow()), () => shared)
    const there = new CitusRide(database, await database.scopeOn(other), () => shared)
    const engine = here.engine()
    for (const ride of [here, there])
      await engine.enqueue(shared, { scope: ride.scope, key: ride.key, input: { amount: 1_200 } })
    proxy.stall()
    const { completer } = createBackground({ engine, relay: [], reaper: false })
    const rounds: number[] = []
    while (!rounds.includes(1)) rounds.push((await completer?.runOnce().catch(() => null))?.completed ?? 0)
    expect(rounds.length).toBeLessThanOrEqual(3)
    expect(await there.traces()).toMatchObject({ keys: 1, rides: 1 })
    proxy.flow()
    await engine.close({ timeoutMs: 0 })
  })
})
