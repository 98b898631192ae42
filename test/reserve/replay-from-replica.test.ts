import { randomBytes, randomUUID } from 'node:crypto'
import { aesGcm, type Outcome, respond } from '@pawl/core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { drawn, ReplicaTrial } from '../support/replica-trial.js'
import { ReplicatedServer } from '../support/replicated-server.js'
import { pipeline } from '../support/rides.js'
import { ServerClock } from '../support/server-clock.js'
import { hear } from '../support/signals.js'

let servers: ReplicatedServer
let trial: ReplicaTrial
beforeAll(async () => {
  servers = await ReplicatedServer.start(1)
})
afterAll(() => servers.stop())
beforeEach(async () => {
  trial = await ReplicaTrial.create(servers)
})
afterEach(async () => {
  await servers.replica.resumeReplay()
  await trial.drop()
})

const AT_REPLICA = ['replica/read_replay_position', 'replica/find_key']
const POSITION = 'reserve/read_written_position'

/** Long enough that no position becomes too old during a test. */
const LONG = { replayMaxLagMs: 60_000 }

const DELETED = 'DELETE FROM pawl.idempotency_keys'

describe('a finished key', () => {
  test('is replayed from the replica as from the primary, and the primary is asked for nothing but its position', async () => {
    const { response } = await trial.finished()
    await servers.caughtUp()
    const replays = hear('pawl:replayed')
    const { engine, steps } = trial.engine(LONG)
    const first = await trial.execute(engine)
    expect(steps.splice(0)).toEqual([POSITION, ...AT_REPLICA])
    const second = await trial.execute(engine)
    expect(steps).toEqual(AT_REPLICA)
    expect(replays.map(({ from }) => from)).toEqual(['replica', 'replica'])

    const fromPrimary = await trial.execute(trial.plainEngine().engine)
    expect(first).toMatchObject({ type: 'replayed', response })
    expect(first).toEqual(fromPrimary)
    expect(second).toEqual(fromPrimary)
    expect(replays.at(-1)?.from).toBe('primary')
  })

  test('that is protected is replayed by whoever has its key, and by nobody else', async () => {
    const protect = aesGcm({ keys: { k1: randomBytes(32) } })
    const { engine: first } = trial.engine({ protect })
    const { response } = (await trial.execute(first)) as { response: object }
    await servers.caughtUp()
    const replays = hear('pawl:replayed')
    const { engine } = trial.engine({ protect, ...LONG })
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed', response })
    expect(replays.map(({ from }) => from)).toEqual(['replica'])
    for (const other of [{}, { protect: aesGcm({ keys: { k1: randomBytes(32) } }) }]) {
      const { engine: without, steps } = trial.engine({ ...other, ...LONG })
      expect(await trial.execute(without)).toMatchObject({ type: 'refused' })
      expect(steps).toEqual([POSITION, ...AT_REPLICA, 'reserve/insert_key', 'reserve/find_key'])
    }
  })

  test.each(['execute', 'enqueue'] as const)('is replayed by %s', async (method) => {
    await trial.finished()
    await servers.caughtUp()
    const replays = hear('pawl:replayed')
    const { engine } = trial.engine()
    await engine[method](drawn, { scope: trial.scope, key: trial.key, input: 7 })
    expect(replays).toMatchObject([{ from: 'replica' }])
  })

  test.each([
    { pipelining: false },
    { preparedStatements: true },
    { options: '-c default_transaction_isolation=serializable' },
    { options: '-c default_transaction_isolation=repeatable\\ read' },
  ])('is replayed with %j', async ({ options, ...more }) => {
    await trial.finished()
    await servers.caughtUp()
    const replays = hear('pawl:replayed')
    const replayFrom = trial.replicaPool(options === undefined ? {} : { options })
    const { engine } = trial.engine({ replayFrom, ...more })
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
    expect(replays).toMatchObject([{ from: 'replica' }, { from: 'replica' }])
  })

  test('of a role that may only read the key table is replayed', async () => {
    await trial.finished()
    const role = `reader_${trial.database.schema}`
    const { schema } = trial.database
    await trial.database.rows(
      `CREATE ROLE ${role} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA ${schema} TO ${role};
       GRANT SELECT ON pawl.idempotency_keys TO ${role}`,
    )
    await servers.caughtUp()
    const url = new URL(servers.replica.url)
    Object.assign(url, { username: role, password: 'x' })
    const replays = hear('pawl:replayed')
    const { engine } = trial.engine({ replayFrom: trial.replicaPool({ connectionString: url.href }) })
    await trial.execute(engine)
    expect(replays).toMatchObject([{ from: 'replica' }])
    await trial.database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
})

describe('the primary decides', () => {
  test('about a new key, which costs one message at the replica and none more at the primary', async () => {
    const without = trial.plainEngine()
    await trial.execute(without.engine, randomUUID())
    const { engine, steps } = trial.engine(LONG)
    await trial.execute(engine, randomUUID())
    steps.splice(0)
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
    expect(steps).toEqual([...AT_REPLICA, ...without.steps])
  })

  test('about a key that is finished, while the replica knows it as running', async () => {
    const { engine: other } = trial.plainEngine()
    await other.enqueue(drawn, { scope: trial.scope, key: trial.key, input: 7 })
    await servers.caughtUp()
    await servers.replica.pauseReplay()
    const { engine } = trial.engine(LONG)
    // Learns the position before the rest is written.
    await trial.execute(engine, randomUUID())
    const finished = await trial.finished()
    const replays = hear('pawl:replayed')
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed', response: finished.response })
    expect(replays).toMatchObject([{ from: 'primary' }])
  })

  test('about another request under the key, another pipeline, and a stuck key', async () => {
    await trial.finished()
    const stuckKey = randomUUID()
    const { engine: other } = trial.plainEngine()
    await other.enqueue(drawn, { scope: trial.scope, key: stuckKey, input: 7 })
    await trial.database.rows(
      `UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'too_old' WHERE key = $1`,
      [stuckKey],
    )
    await servers.caughtUp()
    const another = pipeline<number>({ name: 'another', version: 1 }).finish(() => respond(200))
    const { engine, steps } = trial.engine({ pipelines: [drawn, another] })
    const { scope, key } = trial
    expect(await engine.execute(drawn, { scope, key, input: 8 })).toEqual({
      type: 'mismatch',
      differs: 'request',
    })
    expect(await engine.execute(another, { scope, key, input: 7 })).toEqual({
      type: 'mismatch',
      differs: 'pipeline',
    })
    expect(await trial.execute(engine, stuckKey)).toMatchObject({ type: 'stuck' })
    expect(await engine.execute(drawn, { scope: 'somebody-else', key, input: 7 })).toMatchObject({
      type: 'completed',
    })
    expect(steps.filter((step) => step === 'reserve/insert_key')).toHaveLength(4)
  })
})

describe('a key that was deleted', () => {
  test('is a new one to an engine that hears of the deletion from the position of the primary', async () => {
    const { response } = await trial.finished()
    await servers.caughtUp()
    await servers.replica.pauseReplay()
    await trial.database.rows(DELETED)
    const { engine, steps } = trial.engine(LONG)
    const outcome = await trial.execute(engine)
    expect(outcome).toMatchObject({ type: 'completed' })
    expect(outcome).not.toMatchObject({ response })
    expect(steps.slice(0, 4)).toEqual([POSITION, ...AT_REPLICA, 'reserve/insert_key'])
  })

  test('is replayed for no longer than replayMaxLagMs by an engine that has been at work', async () => {
    const { response } = await trial.finished()
    await servers.caughtUp()
    await servers.replica.pauseReplay()
    const replayMaxLagMs = 500
    const { engine } = trial.engine({ replayMaxLagMs })
    const replays = hear('pawl:replayed')
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed', response })
    expect(replays).toMatchObject([{ from: 'replica' }])
    await trial.database.rows(DELETED)
    const deletedAt = performance.now()
    let last: { readonly outcome: Outcome; readonly askedAt: number }
    do {
      const askedAt = performance.now()
      last = { outcome: await trial.execute(engine), askedAt }
      if (last.outcome.type === 'replayed') expect(askedAt - deletedAt).toBeLessThan(replayMaxLagMs)
    } while (last.outcome.type === 'replayed')
    expect(last.outcome).toMatchObject({ type: 'completed' })
    expect(new Set(replays.map(({ from }) => from))).toEqual(new Set(['replica']))
    // The replica still has what was deleted.
    const { schema } = trial.database
    expect(await servers.replica.rows(`SELECT id FROM ${schema}.idempotency_keys`)).toHaveLength(1)
  })

  test('and reserved again is not replayed as it was, once the replica has caught up', async () => {
    const old = await trial.finished()
    await trial.database.rows(DELETED)
    const { response } = await trial.finished()
    expect(response).not.toEqual(old.response)
    await servers.caughtUp()
    expect(await trial.execute(trial.engine().engine)).toMatchObject({ type: 'replayed', response })
  })
})

const expire = () =>
  trial.database.rows(`UPDATE pawl.idempotency_keys SET expires_at = statement_timestamp() - interval '1 ms'`)

describe('a key that has expired', () => {
  test('is not replayed from a replica that has not heard of its deletion', async () => {
    await trial.finished()
    await expire()
    await servers.caughtUp()
    await servers.replica.pauseReplay()
    const { engine, steps } = trial.engine(LONG)
    // Learns the position before the deletion: the replica has reached it.
    await trial.execute(engine, randomUUID())
    steps.splice(0)
    await trial.database.rows(`${DELETED} WHERE key = $1`, [trial.key])
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
    expect(steps.slice(0, 3)).toEqual([...AT_REPLICA, 'reserve/insert_key'])
  })

  test('by the clock of the primary is not replayed, whatever the clock of the replica says', async () => {
    await trial.finished()
    await servers.caughtUp()
    const ahead = new ServerClock()
    ahead.jump(25 * 3_600_000)
    const behind = new ServerClock()
    behind.jump(-25 * 3_600_000)
    const replays = hear('pawl:replayed')
    const { engine } = trial.engine({
      pool: trial.database.pool({ Client: ahead.Client }),
      replayFrom: trial.replicaPool({ Client: behind.Client }),
    })
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
    expect(replays).toMatchObject([{ from: 'primary' }])
  })

  test('and was put off is replayed by the primary until the replica hears of it', async () => {
    await trial.finished()
    await expire()
    await servers.caughtUp()
    await servers.replica.pauseReplay()
    const { engine } = trial.engine(LONG)
    await trial.execute(engine, randomUUID())
    await trial.database.rows(`UPDATE pawl.idempotency_keys SET expires_at = expires_at + interval '1 hour'`)
    const replays = hear('pawl:replayed')
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
    expect(replays).toMatchObject([{ from: 'primary' }])
  })
})
