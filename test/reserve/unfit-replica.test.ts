import { randomUUID } from 'node:crypto'
import { type EngineOptions, migrate } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { drawn, ReplicaTrial, type WatchedEngine } from '../support/replica-trial.js'
import { ReplicatedServer } from '../support/replicated-server.js'
import { createEngine, type Database } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'

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

/** How often a replica may be of no use before it is left alone. */
const MISSES = 3
const REPLICA_STEP = 'replica/read_replay_position'

const asked = ({ steps }: WatchedEngine): number => steps.filter((step) => step === REPLICA_STEP).length

/** Replays until the replica is left alone. Every time the primary answers. */
async function replayUntilItRests(watched: WatchedEngine): Promise<void> {
  const { response } = await trial.finished()
  const replays = hear('pawl:replayed')
  for (let round = 0; round < MISSES + 2; round++)
    expect(await trial.execute(watched.engine)).toMatchObject({ type: 'replayed', response })
  expect(new Set(replays.map(({ from }) => from))).toEqual(new Set(['primary']))
}

/** Replays until the replica answers, and returns how often the primary answered before. */
async function replayUntilFromReplica({ engine }: WatchedEngine): Promise<number> {
  const replays = hear('pawl:replayed')
  while (replays.at(-1)?.from !== 'replica')
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
  return replays.length - 1
}

describe('a replica that may not answer is announced once and left alone, and the primary answers', () => {
  test('one that is behind', async () => {
    await servers.replica.pauseReplay()
    const warnings = hear('pawl:warning')
    const watched = trial.engine({ replayMaxLagMs: 60_000 })
    await replayUntilItRests(watched)
    expect(warnings).toMatchObject([{ message: expect.stringContaining('further behind'), error: null }])
    expect(asked(watched)).toBe(MISSES)
    await servers.replica.resumeReplay()
    await replayUntilFromReplica(watched)
    expect(warnings).toHaveLength(1)
  })

  test('the primary itself', async () => {
    const warnings = hear('pawl:warning')
    const watched = trial.engine({ replayFrom: trial.database.pool() })
    await replayUntilItRests(watched)
    expect(warnings).toMatchObject([{ message: expect.stringContaining('not a replica') }])
    expect(asked(watched)).toBe(MISSES)
  })

  test('one without the tables', async () => {
    const warnings = hear('pawl:warning')
    const url = new URL(servers.replica.url)
    url.pathname = '/postgres'
    const watched = trial.engine({ replayFrom: trial.replicaPool({ connectionString: url.href }) })
    await replayUntilItRests(watched)
    expect(warnings).toMatchObject([
      { message: expect.stringContaining('could not be asked'), error: { code: '42P01' } },
    ])
    expect(asked(watched)).toBe(MISSES)
  })

  test('one of another database of the same cluster, which has the same key', async () => {
    const { schema } = trial.database
    const name = `other_${schema}`
    await servers.primary.rows(`CREATE DATABASE ${name}`)
    const there = (url: string) => {
      const other = new URL(url)
      other.pathname = `/${name}`
      return { connectionString: other.href }
    }
    const pool = trial.database.pool({ ...there(servers.primary.url), options: '' })
    await pool.query('CREATE TABLE audit (what text)')
    await migrate(pool, { schema })
    const other = createEngine({ pool, pipelines: [drawn], schema })
    const { scope, key } = trial
    expect(await other.execute(drawn, { scope, key, input: 7 })).toMatchObject({ type: 'completed' })
    await other.close()
    await servers.caughtUp()
    const warnings = hear('pawl:warning')
    const replayFrom = trial.replicaPool(there(servers.replica.url))
    await replayUntilItRests(trial.engine({ replayFrom }))
    expect(warnings).toMatchObject([{ message: expect.stringContaining('another database') }])
    await Promise.all([pool.end(), replayFrom.end()])
    await servers.primary.rows(`DROP DATABASE ${name} WITH (FORCE)`)
  })

  test('one whose tables may not be read', async () => {
    const role = `nobody_${trial.database.businessSchema}`
    await trial.database.rows(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`)
    await servers.caughtUp()
    const url = new URL(servers.replica.url)
    Object.assign(url, { username: role, password: 'x' })
    const warnings = hear('pawl:warning')
    const watched = trial.engine({ replayFrom: trial.replicaPool({ connectionString: url.href }) })
    await replayUntilItRests(watched)
    expect(warnings).toMatchObject([{ error: { code: '42501' } }])
    await trial.database.rows(`DROP ROLE ${role}`)
  })

  test('one that refuses connections', async () => {
    const warnings = hear('pawl:warning')
    const url = new URL(servers.replica.url)
    url.port = '1'
    const watched = trial.engine({ replayFrom: trial.replicaPool({ connectionString: url.href }) })
    await replayUntilItRests(watched)
    expect(warnings).toMatchObject([{ error: { code: 'PAWL_NO_CONNECTION' } }])
  })
})

describe('a replica that does not answer', () => {
  test('delays a request by a bounded time, is left alone, and is of use again when it is back', async () => {
    const replayFrom = trial.replicaPool()
    const replayTimeoutMs = 250
    const watched = trial.engine({ replayFrom, replayTimeoutMs })
    const { response } = await trial.finished()
    await servers.caughtUp()
    await replayUntilFromReplica(watched)
    const warnings = hear('pawl:warning')
    const thaw = await servers.replica.signalBackends('SIGSTOP')
    const before = asked(watched)
    const frozenAt = performance.now()
    try {
      for (let round = 0; round < MISSES; round++)
        expect(await trial.execute(watched.engine)).toMatchObject({ type: 'replayed', response })
      // Three times 250 ms, and what a busy machine adds.
      expect(performance.now() - frozenAt).toBeLessThan(3_000)
      expect(warnings.at(-1)).toMatchObject({
        message: expect.stringContaining(`did not answer within ${replayTimeoutMs} ms`),
      })
      await trial.execute(watched.engine)
      expect(asked(watched)).toBeLessThanOrEqual(before + MISSES)
    } finally {
      thaw()
    }
    expect(await replayUntilFromReplica(watched)).toBeGreaterThan(0)
    await watched.engine.close()
    await replayFrom.end()
    expect(replayFrom.totalCount).toBe(0)
  })

  test('is asked again by one request at a time', async () => {
    await trial.finished()
    await servers.caughtUp()
    const held = gate()
    let isFit = false
    const looks: string[] = []
    const pool = trial.database.pool()
    const replayFrom = trial.replicaPool()
    // Connecting takes longer than looking, on a busy machine even longer than a request waits.
    await Promise.all([pool.query('SELECT 1'), replayFrom.query('SELECT 1')])
    const { schema } = trial.database
    const options: EngineOptions<Database> = {
      pool,
      replayFrom,
      pipelines: [drawn],
      schema,
      replayTimeoutMs: 500,
    }
    const engine = createProbedEngine<Database>(options, ({ phase, step, when }) => {
      if (`${phase}/${step}:${when}` !== `${REPLICA_STEP}:before`) return undefined
      looks.push(step)
      return isFit ? undefined : held.opened
    })
    const replays = hear('pawl:replayed')
    try {
      const warnings = hear('pawl:warning')
      for (let round = 0; round < MISSES; round++) await trial.execute(engine)
      expect(looks).toHaveLength(MISSES)
      // Until the rest is over, none of them looks.
      while (looks.length === MISSES)
        await Promise.all(Array.from({ length: 5 }, () => trial.execute(engine)))
      expect(looks).toHaveLength(MISSES + 1)
      expect(warnings.filter(({ message }) => message.includes('did not answer'))).toHaveLength(1)
      expect(new Set(replays.map(({ from }) => from))).toEqual(new Set(['primary']))
    } finally {
      held.open()
    }
    isFit = true
    while (replays.at(-1)?.from !== 'replica') await trial.execute(engine)
    await engine.close()
  })

  test('and a new request runs all the same, when its server is killed and started again', async () => {
    const watched = trial.engine()
    await trial.execute(watched.engine, randomUUID())
    await servers.replica.server.kill()
    expect(await trial.execute(watched.engine)).toMatchObject({ type: 'completed' })
    expect(await trial.execute(watched.engine)).toMatchObject({ type: 'replayed' })
    await servers.replica.server.restart()
    await servers.caughtUp()
    await replayUntilFromReplica(watched)
  })
})

test('close stops listening to both pools, and ends neither', async () => {
  const { pool, replayFrom } = { pool: trial.database.pool(), replayFrom: trial.replicaPool() }
  const listeners = () => [pool.listenerCount('error'), replayFrom.listenerCount('error')]
  const before = listeners()
  const { engine } = trial.engine({ pool, replayFrom })
  expect(listeners()).toEqual(before.map((count) => count + 1))
  await trial.execute(engine)
  await engine.close()
  expect(listeners()).toEqual(before)
  expect([pool.ending, replayFrom.ending]).toEqual([false, false])
})
