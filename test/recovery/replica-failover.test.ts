import { expect, onTestFinished, test } from 'vitest'
import { ReplicaTrial } from '../support/replica-trial.js'
import { ReplicatedServer, type Server } from '../support/replicated-server.js'
import { hear } from '../support/signals.js'

/** Servers of the test's own, and a request on them. */
async function start(replicaCount: number): Promise<ReplicaTrial> {
  const servers = await ReplicatedServer.start(replicaCount)
  const trial = await ReplicaTrial.create(servers)
  onTestFinished(async () => {
    await servers.primary.server.restart()
    await trial.drop()
    await servers.stop()
  })
  return trial
}

/** How far a server has come, in bytes. */
async function positionOf(server: Server, what: string): Promise<number> {
  const [row] = await server.rows<{ bytes: number }>(`SELECT (${what} - '0/0'::pg_lsn)::float8 AS bytes`)
  return row?.bytes ?? Number.NaN
}

test('a replica that follows a lost timeline answers nothing, however far it is', async () => {
  const trial = await start(2)
  const { servers, database } = trial
  const [promoted, stranded] = servers.replicas as [Server, Server]
  // From here on, one of the two hears of nothing.
  await promoted.server.kill()
  const lost = await trial.finished()
  await servers.primary.rows(`SELECT pg_logical_emit_message(true, 'pawl', repeat('x', 1000000))`)
  await servers.caughtUp([stranded])
  await servers.primary.server.kill()
  await promoted.server.restart()
  await promoted.rows('SELECT pg_promote()')

  const replayFrom = database.pool({ connectionString: stranded.url })
  const pool = database.pool({ connectionString: promoted.url })
  const { engine } = trial.engine({ pool, replayFrom, replayMaxLagMs: 60_000 })
  const outcome = await trial.execute(engine)
  expect(outcome).toMatchObject({ type: 'completed' })
  expect(outcome).not.toMatchObject({ response: lost.response })

  const warnings = hear('pawl:warning')
  const replays = hear('pawl:replayed')
  for (let round = 0; round < 2; round++) await trial.execute(engine)
  expect(warnings).toMatchObject([{ message: expect.stringContaining('another timeline') }])
  expect(new Set(replays.map(({ from }) => from))).toEqual(new Set(['primary']))
  // The position alone would not have told.
  expect(await positionOf(stranded, 'pg_last_wal_replay_lsn()')).toBeGreaterThan(
    await positionOf(promoted, 'pg_current_wal_insert_lsn()'),
  )
})

test('a replica answers after its primary has gone while its position is recent enough, and no longer once it is promoted', async () => {
  const trial = await start(1)
  const { servers } = trial
  const { response } = await trial.finished()
  await servers.caughtUp()
  const { engine, steps } = trial.engine({ replayMaxLagMs: 60_000 })
  await trial.execute(engine)
  await servers.primary.server.kill()
  steps.splice(0)
  expect(await trial.execute(engine)).toMatchObject({ type: 'replayed', response })
  expect(steps).toEqual(['replica/read_replay_position', 'replica/find_key'])
  // Nobody can tell this one how far the primary had come.
  const { engine: another } = trial.engine({ replayMaxLagMs: 60_000 })
  expect(await trial.execute(another)).toMatchObject({ type: 'unavailable' })

  await servers.replica.rows('SELECT pg_promote()')
  const warnings = hear('pawl:warning')
  for (let round = 0; round < 3; round++)
    expect(await trial.execute(engine)).toMatchObject({ type: 'unavailable' })
  expect(warnings.map(({ message }) => message)).toEqual(
    expect.arrayContaining([expect.stringContaining('not a replica')]),
  )
})
