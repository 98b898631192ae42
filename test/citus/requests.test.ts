import { randomBytes, randomUUID } from 'node:crypto'
import {
  aesGcm,
  createBackground,
  createOperator,
  type JobToDeliver,
  type Limits,
  migrate,
  respond,
  retryLater,
} from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { engineThatDiesAt, positionNamer } from '../support/crash.js'
import { DELIVERED } from '../support/relay-trial.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { CitusDatabase, CitusRide, describeOnCitus, ONE_OF_EACH } from './citus-database.js'

describeOnCitus('on Citus', () => {
  const database = new CitusDatabase()
  beforeAll(() => database.create())
  afterAll(() => database.drop())

  const expireLeases = () =>
    database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = statement_timestamp() - interval '1 ms' WHERE lease_until IS NOT NULL`,
    )

  test('the layout is learnt from the schema, told by status and doctor, and kept by migrate', async () => {
    expect((await database.operator.status()).layout).toEqual({ kind: 'citus', shards: 8 })
    const findings = await database.operator.doctor()
    expect(findings.find(({ check }) => check === 'schema')?.detail).toContain('Its layout is citus (8).')
    expect(findings.filter(({ level }) => level === 'error')).toEqual([])
    expect(await migrate(database.admin, { schema: database.schema })).toEqual({ applied: 0 })
    await expect(migrate(database.admin, { schema: database.schema, layout: 'plain' })).rejects.toMatchObject(
      {
        code: 'PAWL_OTHER_LAYOUT',
      },
    )
  })

  test('a request is answered once, by one server, with one-phase commits, and replays', async () => {
    const ride = new CitusRide(database)
    const remote: string[] = []
    const pool = database.pool({ max: 1 })
    pool.on('connect', (client) => {
      client.on('notice', ({ message }) => void (message?.startsWith('issuing') && remote.push(message)))
      void client.query('SET citus.log_remote_commands = on')
    })
    const engine = ride.engine(pool)
    const first = await ride.execute(engine)
    if (first.type !== 'completed') throw new Error(`unexpected ${first.type}`)
    // What it costs: the look, the reservation, and three transactions, each with its BEGIN and COMMIT.
    expect(new Set(remote.map((said) => /on server \S+/.exec(said)?.[0])).size).toBe(1)
    expect(remote.filter((said) => said.includes('PREPARE TRANSACTION'))).toEqual([])
    expect(remote.filter((said) => said.includes('issuing COMMIT'))).toHaveLength(4)
    expect(remote.length).toBeLessThanOrEqual(19)
    remote.length = 0
    const again = await ride.execute(engine)
    if (again.type !== 'replayed') throw new Error(`unexpected ${again.type}`)
    expect(again.response).toEqual(first.response)
    expect(remote).toHaveLength(1)
    expect(await ride.traces()).toEqual(ONE_OF_EACH)
    await engine.close()
  })

  test('the time-outs of a phase reach the server that has its rows', async () => {
    const seen: Record<string, string>[] = []
    const settings = { lockTimeoutMs: 321, statementTimeoutMs: 4_321, idleTimeoutMs: 5_321 }
    const looking = pipeline<null>({ name: 'looking', version: 1, ...settings })
      .local('looked', async ({ tx, scope }) => {
        await tx.insertInto('rides').values({ rider: scope, amount: 1 }).execute()
        const { rows } = await sql<Record<string, string>>`
          SELECT current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement,
                 current_setting('idle_in_transaction_session_timeout') AS idle, inet_server_port()::text AS port
            FROM rides WHERE rider = ${scope}`.execute(tx)
        seen.push(...rows)
      })
      .finish(() => respond(200))
    const engine = createEngine({ pool: database.pool(), pipelines: [looking], schema: database.schema })
    const { scope, key } = new CitusRide(database)
    expect(await engine.execute(looking, { scope, key, input: null })).toMatchObject({ type: 'completed' })
    expect(seen).toEqual([
      { lock: '321ms', statement: '4321ms', idle: '5321ms', port: expect.any(String) as string },
    ])
    const workers = await database.workers()
    expect(workers.map(({ nodeport }) => String(nodeport))).toContain(seen[0]?.['port'])
    await engine.close()
  })

  test('a request that dies at any position is finished by a retry, with one charge', async () => {
    const clean = new CitusRide(database)
    const name = positionNamer()
    const passed: string[] = []
    const watched = createProbedEngine<Database>(
      optionsOf(clean),
      (position) => void passed.push(name(position)),
    )
    await clean.execute(watched)
    await watched.close()
    expect(passed.length).toBeGreaterThan(20)
    for (const at of passed) {
      const ride = new CitusRide(database)
      const { engine, died } = engineThatDiesAt(optionsOf(ride), at)
      await Promise.race([died, ride.execute(engine)])
      await expireLeases()
      const next = ride.engine()
      const outcome = await settled(() => ride.execute(next))
      expect([at, outcome.type]).toEqual([at, expect.stringMatching(/^(?:completed|replayed)$/)])
      expect([at, await ride.traces()]).toEqual([at, ONE_OF_EACH])
      await next.close()
    }
  })

  const optionsOf = (ride: CitusRide) => ({
    pool: database.pool({ max: 2 }),
    pipelines: [ride.pipeline],
    schema: database.schema,
  })

  /** A transaction whose client has just died may hold its lock for a moment. */
  const settled = async (execute: () => ReturnType<CitusRide['execute']>) => {
    for (;;) {
      const outcome = await execute()
      if (outcome.type !== 'in_flight') return outcome
      await expireLeases()
    }
  }

  test('the completer finishes what its client left, of all shards', async () => {
    // Whoever finishes a ride charges it at the provider of its own pipeline.
    const { provider, pipeline: shared } = new CitusRide(database)
    const rides = Array.from({ length: 12 }, () => new CitusRide(database, undefined, () => shared))
    for (const ride of rides) {
      const { engine, died } = engineThatDiesAt(optionsOf(ride), 'charge_created/call#1:after')
      await Promise.race([died, ride.execute(engine)])
    }
    await expireLeases()
    const engine = (rides[0] as CitusRide).engine()
    const { completer } = createBackground({ engine, relay: [], reaper: false })
    let completed = 0
    while (completed < rides.length) completed += (await completer?.runOnce())?.completed ?? 0
    for (const ride of rides) expect(await ride.traces()).toMatchObject({ ...ONE_OF_EACH, charges: 0 })
    expect(await provider.ledger()).toHaveLength(rides.length)
    await engine.close()
  })

  test("a key's jobs are delivered in their order, whichever server took the request", async () => {
    const workers = await database.workers()
    const ports = [new URL(database.url).port, ...workers.map(({ nodeport }) => String(nodeport))]
    const delivered: { keyId: string; nth: number }[] = []
    const rides = Array.from({ length: 9 }, () => new CitusRide(database))
    for (const [index, ride] of rides.entries()) {
      const url = new URL(database.url)
      url.port = ports[index % ports.length] ?? ''
      const engine = ride.engine(database.pool({ connectionString: url.href, max: 2 }))
      expect((await ride.execute(engine)).type).toBe('completed')
      await engine.close()
    }
    const first = rides[0] as CitusRide
    const engine = first.engine()
    const sink = {
      deliver: (jobs: readonly JobToDeliver[]) => {
        delivered.push(
          ...jobs.map(({ keyId, payload }) => ({ keyId, nth: (payload as { nth: number }).nth })),
        )
        return Promise.resolve(jobs.map(() => DELIVERED))
      },
    }
    const background = createBackground({ engine, relay: { sink }, reaper: false, completer: false })
    const [relay] = background.relays
    while ((await relay?.runOnce())?.claimed !== 0);
    for (const keyId of new Set(delivered.map((job) => job.keyId)))
      expect(delivered.filter((job) => job.keyId === keyId).map(({ nth }) => nth)).toEqual([1, 2])
    expect(delivered.length).toBeGreaterThanOrEqual(rides.length * 2)
    expect(await database.rows('SELECT id FROM pawl.staged_jobs')).toEqual([])
    await engine.close()
  })

  test('the reaper deletes what has expired, of all shards, and nothing else', async () => {
    const rides = Array.from({ length: 6 }, () => new CitusRide(database))
    for (const ride of rides) {
      const engine = ride.engine()
      await ride.execute(engine)
      await engine.close()
    }
    const kept = rides[0] as CitusRide
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = statement_timestamp() - interval '1 s' WHERE scope <> $1`,
      [kept.scope],
    )
    // All are old, and the one whose key is kept stays with it.
    await database.rows(`UPDATE pawl.effects SET created_at = '2020-01-01'`)
    const engine = kept.engine()
    const { reaper } = createBackground({ engine, relay: [], reaper: { batchSize: 4 }, completer: false })
    const counts = await reaper?.runOnce()
    expect(counts?.deleted).toBeGreaterThanOrEqual(5)
    expect(counts?.effectsDeleted).toBeGreaterThanOrEqual(5)
    const left = await database.rows<{ scope: string }>(
      `SELECT scope FROM pawl.idempotency_keys WHERE status = 'finished' UNION ALL SELECT scope FROM pawl.effects`,
    )
    expect(left).toEqual([{ scope: kept.scope }, { scope: kept.scope }])
    await engine.close()
  })

  test('a person can do everything: unstick, revoke, answer, requeue, reap, and see all of it', async () => {
    const operator = createOperator({ pool: database.admin, schema: database.schema })
    const because = { actor: 'test', reason: 'to see that it works' }
    const stuck = new CitusRide(database)
    const engine = stuck.engine()
    await stuck.execute(engine)
    const name = { scope: stuck.scope, key: stuck.key }
    const setTo = (sqlText: string) =>
      database.rows(`UPDATE pawl.idempotency_keys SET ${sqlText} WHERE scope = $1 AND key = $2`, [
        stuck.scope,
        stuck.key,
      ])
    await setTo(
      `status = 'stuck', stuck_reason = 'attempts_exhausted', recovery_point = 'charge_created', expires_at = NULL`,
    )
    expect((await operator.list({ status: 'stuck' })).map(({ scope }) => scope)).toContain(stuck.scope)
    await operator.unstick(name, because)
    await setTo(`lease_until = statement_timestamp() + interval '1 hour'`)
    await operator.revoke(name, because)
    await setTo(`status = 'stuck', stuck_reason = 'attempts_exhausted'`)
    await operator.answer(name, because, { status: 200, body: { answered: true } })
    const detail = await operator.show(name)
    expect(detail?.interventions.map(({ action }) => action)).toEqual(['unstick', 'revoke', 'answer'])
    expect(await stuck.execute(engine)).toMatchObject({ type: 'replayed' })
    await database.rows(`UPDATE pawl.staged_jobs SET dead_at = statement_timestamp(), attempts = 25`)
    const all = await operator.deadJobs()
    // One job of each of two keys: what is noted is what was requeued, and nothing else.
    const other = new CitusRide(database, stuck.scope)
    const otherEngine = other.engine()
    await other.execute(otherEngine)
    await otherEngine.close()
    await database.rows(`UPDATE pawl.staged_jobs SET dead_at = statement_timestamp(), attempts = 25`)
    const chosen = await database.rows<{ id: string }>(
      `SELECT j.id FROM pawl.staged_jobs AS j JOIN pawl.idempotency_keys AS k ON k.scope = j.scope AND k.id = j.key_id
        WHERE k.scope = $1 AND j.name = CASE WHEN k.key = $2 THEN 'send_receipt' ELSE 'send_invoice' END`,
      [stuck.scope, stuck.key],
    )
    const jobIds = chosen.map(({ id }) => id)
    expect(jobIds).toHaveLength(2)
    expect(await operator.requeue({ jobIds }, because)).toBe(2)
    const notes = await database.rows<{ id: string }>(
      `SELECT detail->'before'->>'jobId' AS id FROM pawl.interventions WHERE action = 'requeue'`,
    )
    expect(notes.map(({ id }) => id).toSorted()).toEqual(jobIds.toSorted())
    const dead = await operator.deadJobs()
    expect(await operator.requeue({ all: true }, because)).toBe(dead.length)
    expect(await operator.requeue({ all: true }, because)).toBe(0)
    const noted = await database.rows(`SELECT id FROM pawl.interventions WHERE action = 'requeue'`)
    expect(noted).toHaveLength(all.length + 2)
    expect((await operator.status()).jobs.dead).toMatchObject({ count: 0 })
    await engine.close()
  })

  test('a finished key is kept for longer, or forgotten once its effects are undone', async () => {
    const { operator } = database
    const because = { actor: 'test', reason: 'to see that it works' }
    const ride = new CitusRide(database)
    const engine = ride.engine()
    await ride.execute(engine)
    const name = { scope: ride.scope, key: ride.key }
    const until = new Date(Date.now() + 365 * 24 * 3_600_000)
    expect(await operator.extend(name, because, until)).toMatchObject({
      type: 'done',
      key: { expiresAt: until },
    })
    expect(await operator.forget(name, because)).not.toMatchObject({ type: 'done' })
    expect(await operator.forget(name, because, { effectsUndone: true })).toMatchObject({ type: 'done' })
    expect(await operator.show(name)).toBeNull()
    expect((await ride.execute(engine)).type).toBe('completed')
    const notes = await database.rows<{ action: string }>(
      `SELECT action FROM pawl.interventions WHERE scope = $1 AND key = $2 ORDER BY created_at`,
      [ride.scope, ride.key],
    )
    expect(notes.map(({ action }) => action)).toEqual(['extend', 'forget'])
    await engine.close()
  })

  test('what the requests of a scope have left is erased, and nothing of another scope', async () => {
    const gone = new CitusRide(database)
    const kept = new CitusRide(database)
    for (const ride of [gone, kept]) {
      const engine = ride.engine()
      await ride.execute(engine)
      await engine.close()
    }
    // What is recent is kept, and so is a key whose jobs are still to be delivered.
    for (const statement of [
      'DELETE FROM pawl.staged_jobs WHERE scope = $1',
      `UPDATE pawl.effects SET created_at = statement_timestamp() - interval '5 days' WHERE scope = $1`,
    ])
      await database.rows(statement, [gone.scope])
    await database.operator.erase({ scope: gone.scope, actor: 'test', reason: 'to see that it works' })
    const left = await database.rows<{ scope: string }>(
      `SELECT scope FROM pawl.idempotency_keys WHERE scope = ANY ($1)`,
      [[gone.scope, kept.scope]],
    )
    expect(left).toEqual([{ scope: kept.scope }])
    expect(await kept.traces()).toEqual(ONE_OF_EACH)
  })

  test('what is missing or forbidden is said by name, as on one server', async () => {
    const engine = createEngine({ pool: database.admin, pipelines: [], schema: `${database.schema}_none` })
    await expect(engine.inspect('a', 'b')).rejects.toMatchObject({ code: 'PAWL_NOT_MIGRATED' })
    await engine.close()
  })

  test('rows are compared by nothing but scope and key: one key in two scopes is two requests', async () => {
    const one = new CitusRide(database)
    const other = new CitusRide(database)
    const engine = createEngine({ pool: database.pool(), pipelines: [one.pipeline], schema: database.schema })
    const ask = (scope: string) => engine.execute(one.pipeline, { scope, key: 'same', input: { amount: 5 } })
    expect((await ask(one.scope)).type).toBe('completed')
    expect((await ask(other.scope)).type).toBe('completed')
    expect((await ask(other.scope)).type).toBe('replayed')
    await engine.close()
  })

  test('limits hold: new keys exactly, unfinished ones, look-ups; idle buckets go; bytes are not counted', async () => {
    const scope = `limited-${randomUUID()}`
    const hour = 3_600_000
    const { schema } = database
    const waits = pipeline<null>({ name: 'waits', version: 1 }).finish(() => retryLater())
    const notes = pipeline<null>({ name: 'notes', version: 1 }).finish(() => respond(201))
    const engine = (limits: Limits) =>
      createEngine({ pool: database.pool(), pipelines: [waits, notes], schema, limits })
    const rated = engine({ newKeys: { max: 3, perMs: hour }, lookups: { max: 1, perMs: hour } })
    const note = (key: string) => rated.execute(notes, { scope, key, input: null })
    const many = await Promise.all(Array.from({ length: 12 }, (_, nth) => note(`n${nth}`)))
    expect(many.filter(({ type }) => type === 'completed')).toHaveLength(3)
    const refused = many.filter(({ type }) => type !== 'completed')
    for (const each of refused) expect(each).toMatchObject({ type: 'limited', limit: 'new_keys' })
    expect(await note(`n${many.findIndex(({ type }) => type === 'completed')}`)).toMatchObject({
      type: 'replayed',
    })
    expect(await rated.inspect(scope, 'none')).toBeNull()
    await expect(rated.inspect(scope, 'none')).rejects.toMatchObject({ code: 'PAWL_LIMITED' })

    const few = engine({ unfinished: 2 })
    const wait = (key: string) => few.execute(waits, { scope, key, input: null })
    expect([(await wait('w1')).type, (await wait('w2')).type]).toEqual(['retry_later', 'retry_later'])
    expect(await wait('w3')).toMatchObject({ type: 'limited', limit: 'unfinished' })
    expect((await wait('w1')).type).toBe('retry_later')

    await database.rows(`UPDATE pawl.scope_usage SET refilled_at = '2001-01-01T00:00:00Z'`)
    const { reaper } = createBackground({ engine: rated, completer: false, relay: [] })
    await reaper?.runOnce()
    expect(await database.rows('SELECT FROM pawl.scope_usage WHERE scope = $1', [scope])).toEqual([])
    const counted = engine({ storedBytes: 1_000 })
    await expect(counted.execute(notes, { scope, key: 'bytes', input: null })).rejects.toMatchObject({
      code: 'PAWL_INVALID_OPTION',
    })
    await Promise.all([rated.close(), few.close(), counted.close()])
  })

  test('what is protected is read by whoever has the key, on whichever server it is', async () => {
    const ride = new CitusRide(database)
    const { schema } = database
    const protect = aesGcm({ keys: { k1: randomBytes(32) }, current: 'k1', perScope: true })
    const engine = () => createEngine({ pool: database.pool(), pipelines: [ride.pipeline], schema, protect })
    const [one, other] = [engine(), engine()]
    const first = await ride.execute(one)
    if (first.type !== 'completed') throw new Error(`unexpected ${first.type}`)
    expect(await ride.execute(other)).toMatchObject({ type: 'replayed', response: first.response })
    const without = ride.engine()
    expect(await ride.execute(without)).toMatchObject({ type: 'refused' })
    expect(await ride.traces()).toEqual(ONE_OF_EACH)
    await Promise.all([one.close(), other.close(), without.close()])
  })

  test('many at once with one key: one runs', async () => {
    const ride = new CitusRide(database)
    const engine = ride.engine()
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => ride.execute(engine)))
    const types = outcomes.map(({ type }) => type)
    expect(types.filter((type) => type === 'completed')).toHaveLength(1)
    expect(new Set(types.filter((type) => type !== 'completed'))).toEqual(new Set(['in_flight']))
    expect(await ride.traces()).toEqual(ONE_OF_EACH)
    await engine.close()
  })
})
