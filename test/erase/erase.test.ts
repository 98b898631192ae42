import { randomUUID } from 'node:crypto'
import { createOperator, type Operator, reconcile } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { seedEffect, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { addJob, because, countKeys, daysAgo, dump, fillKeys, fillScope, SECRET } from './erased-scope.js'

let database: TestDatabase
let operator: Operator
beforeEach(async () => {
  database = await TestDatabase.create()
  operator = createOperator({ pool: database.pool(), schema: database.schema })
})
afterEach(() => database.drop())

const NOTHING = { keys: 0, effects: 0, jobs: 0, interventions: 0 }

describe('a scope', () => {
  test('is gone from every table, and nothing of any other is touched', async () => {
    await fillScope(database, 'rider-other', 'key-other')
    const others = await dump(database)
    await fillScope(database, 'rider-7', 'key-7')
    await fillScope(database, 'rider-7', 'key-8', { createdAgo: '5 days' })
    const report = await operator.erase({ scope: 'rider-7', ...because })
    expect(report).toMatchObject({
      complete: true,
      erased: { keys: 2, effects: 2, jobs: 2, interventions: 2 },
      keptCount: 0,
      kept: [],
    })
    const left = await dump(database)
    expect(left).not.toMatch(/rider-7|key-7|key-8|ch_key-[78]/)
    for (const line of others.split('\n')) expect(left).toContain(line)
    // What is left is for reconciliation, and for whoever wants to know that somebody intervened.
    expect(
      await database.rows(`SELECT scope, key, reference, phase FROM pawl.effects WHERE scope LIKE 'erased%'`),
    ).toEqual(
      Array.from({ length: 2 }, () => ({
        scope: expect.stringMatching(/^erased_[0-9a-f]{32}$/),
        key: expect.stringMatching(/^erased_/),
        reference: expect.stringMatching(/^erased_/),
        phase: 'charge',
      })),
    )
    expect(
      await database.rows(
        `SELECT key, reason, detail, action, actor FROM pawl.interventions WHERE scope LIKE 'erased%'`,
      ),
    ).toEqual(
      Array.from({ length: 2 }, () => ({
        key: null,
        reason: null,
        detail: null,
        action: 'answer',
        actor: 'anna',
      })),
    )
    expect(await operator.erase({ scope: 'rider-7', ...because })).toMatchObject({
      complete: true,
      erased: NOTHING,
    })
  })

  test.each([
    `'; DROP TABLE x; --`,
    `a"b\\c`,
    'line\nbreak\r',
    '\u202Eltr',
    'erased_',
    '%',
    '日本 🚕',
    ' '.repeat(3) + 'x',
  ])('of the name %j is erased, and no other', async (scope) => {
    await fillScope(database, scope, 'k')
    await fillScope(database, `${scope}x`, 'k')
    expect(await operator.erase({ scope, ...because })).toMatchObject({
      complete: true,
      erased: { keys: 1, effects: 1, jobs: 1, interventions: 1 },
    })
    expect(await countKeys(database, scope)).toBe(0)
    expect(await countKeys(database, `${scope}x`)).toBe(1)
  })

  test('keeps what has to be kept, and says why; what can be forced is forced only on request', async () => {
    const scope = 'rider-7'
    await fillScope(database, scope, 'done')
    const running = await fillScope(database, scope, 'running', { status: 'running' })
    const stuck = await fillScope(database, scope, 'stuck', { status: 'stuck' })
    const recent = await seedKey(database, { scope, key: 'recent', status: 'finished', createdAgo: '1 hour' })
    await seedEffect(database, { scope, key: 'recent', keyId: recent, at: daysAgo(1 / 24) })
    await seedEffect(database, { scope, key: 'reaped', at: daysAgo(1 / 24) })
    // A retry needs to know of it, or its provider would answer with what was undone.
    await seedEffect(database, { scope, key: 'undone', at: daysAgo(1 / 24) })
    await database.rows(`UPDATE pawl.effects SET undone_at = clock_timestamp() WHERE key = 'undone'`)
    const waiting = await seedKey(database, {
      scope,
      key: 'waiting',
      status: 'finished',
      createdAgo: '1 day',
    })
    await addJob(database, { scope, keyId: waiting, dead: false })
    await addJob(database, { scope, keyId: waiting, dead: false, claimed: true })
    const before = await operator.show({ scope, key: 'running' })

    const dry = await operator.erase({ scope, ...because, dryRun: true })
    const report = await operator.erase({ scope, ...because })
    expect(dry).toEqual({ ...report })
    expect(report.erased).toEqual({ keys: 1, effects: 1, jobs: 3, interventions: 1 })
    expect(report.kept.map(({ what, name, why }) => `${what} ${name} ${why}`).toSorted()).toEqual([
      'effect reaped recent_effect',
      'effect undone recent_effect',
      'job mail undelivered',
      'job mail undelivered',
      'key recent recent_effect',
      'key running running',
      'key stuck stuck',
      'key waiting undelivered',
    ])
    expect(report).toMatchObject({ complete: false, keptCount: 8 })
    const { until = null } = report.kept.find(({ id }) => id === recent) ?? {}
    expect(until?.getTime()).toBeGreaterThan(Date.now() + 22 * 3_600_000)
    // A request that goes on has all that it had, except for jobs that were given up.
    expect(await operator.show({ scope, key: 'running' })).toEqual({ ...before, jobs: [] })
    expect(await operator.show({ keyId: stuck })).not.toBeNull()
    expect(await operator.show({ keyId: running })).toMatchObject({
      interventions: [{ reason: 'the rider of running called' }],
    })

    const forced = await operator.erase({ scope, ...because, recentEffects: true, undeliveredJobs: true })
    expect(forced.erased).toEqual({ keys: 1, effects: 3, jobs: 1, interventions: 0 })
    expect(forced.kept.map(({ what, name, why }) => `${what} ${name} ${why}`).toSorted()).toEqual([
      'job mail locked',
      'key running running',
      'key stuck stuck',
      'key waiting undelivered',
    ])
  })

  test('keeps what a person answered a moment ago: a call in doubt leaves no effect, and a retry would make it again', async () => {
    const scope = 'rider-7'
    await fillScope(database, scope, 'answered long ago')
    const keyId = await seedKey(database, { scope, key: 'answered', status: 'stuck', createdAgo: '1 hour' })
    await operator.answer({ scope, key: 'answered' }, because, { status: 200 })
    const report = await operator.erase({ scope, ...because })
    expect(report).toMatchObject({
      erased: { keys: 1 },
      kept: [
        { what: 'key', id: keyId, name: 'answered', why: 'recent_effect', until: expect.any(Date) as Date },
      ],
    })
    expect(await operator.erase({ scope, ...because, recentEffects: true })).toMatchObject({ complete: true })
  })

  test('that somebody uses is erased up to the moment at which the erasure began', async () => {
    await createRideTables(database)
    const trial = new RideTrial(database)
    const { scope } = trial
    await fillKeys(database, scope, 1_500)
    const engine = createEngine(trial.options())
    const traffic = Array.from({ length: 30 }, (_, n) =>
      engine.execute(trial.pipeline, { scope, key: `live-${n}`, input: { amount: 5 } }),
    )
    const [report, ...outcomes] = await Promise.all([engine.erase({ scope, ...because }), ...traffic])
    expect(outcomes.map(({ type }) => type)).toEqual(Array(30).fill('completed'))
    expect(report.erased.keys).toBeGreaterThanOrEqual(1_500)
    // Each has had an effect just now, so it is kept, or came later: its retry is answered, and charges nobody again.
    for (let n = 0; n < 30; n++) {
      const again = await engine.execute(trial.pipeline, { scope, key: `live-${n}`, input: { amount: 5 } })
      expect(again.type).toBe('replayed')
    }
    expect(await trial.provider.ledger()).toHaveLength(30)
    await engine.close()
  })

  test('is erased once, however many do it at the same time', async () => {
    const scope = 'rider-7'
    await fillKeys(database, scope, 1_200)
    for (let n = 0; n < 150; n++)
      await seedEffect(database, { scope, key: `e${n}`, providerKey: `pk${n}`, at: daysAgo(9) })
    const reports = await Promise.all(Array.from({ length: 3 }, () => operator.erase({ scope, ...because })))
    const sum = (what: 'keys' | 'effects') => reports.reduce((total, { erased }) => total + erased[what], 0)
    expect(sum('keys')).toBe(1_200)
    expect(sum('effects')).toBe(150)
    expect(
      await database.rows(
        'SELECT count(*)::int AS n, count(DISTINCT provider_key)::int AS d FROM pawl.effects',
      ),
    ).toEqual([{ n: 150, d: 150 }])
    expect(await countKeys(database, scope)).toBe(0)
  })
})

describe('an erasure that is cut off', () => {
  test.each([2, 5, 9])('at its statement %i goes on where it is run again', async (nth) => {
    const scope = 'rider-7'
    await fillKeys(database, scope, 1_200)
    for (let n = 0; n < 120; n++)
      await seedEffect(database, { scope, key: `e${n}`, providerKey: `pk${n}`, at: daysAgo(9) })
    await fillScope(database, scope, 'z')
    const pool = database.pool({ max: 1 })
    let sent = 0
    pool.on('connect', (client) => {
      const heard = client as unknown as {
        query: (...args: unknown[]) => unknown
        connection: { stream: { destroy(): void } }
      }
      const query = heard.query.bind(client)
      heard.query = (...args) => {
        const answer = query(...args)
        if (++sent === nth * 3) heard.connection.stream.destroy()
        return answer
      }
    })
    const cut = createOperator({ pool, schema: database.schema })
    await expect(cut.erase({ scope, ...because })).rejects.toMatchObject({ code: 'PAWL_CONNECTION_LOST' })
    await operator.erase({ scope, ...because })
    expect(await dump(database)).not.toContain(scope)
    expect(
      await database.rows(
        'SELECT count(*)::int AS n, count(DISTINCT provider_key)::int AS d FROM pawl.effects',
      ),
    ).toEqual([{ n: 121, d: 121 }])
  })

  test('by a closing engine says so, and another goes on', async () => {
    await createRideTables(database)
    const trial = new RideTrial(database)
    const engine = createEngine(trial.options())
    await fillKeys(database, 'rider-7', 3_000)
    const erasing = engine.erase({ scope: 'rider-7', ...because })
    const ended = expect(erasing).rejects.toMatchObject({ code: 'PAWL_CLOSING' })
    await engine.close({ timeoutMs: 0 })
    await ended
    await expect(engine.erase({ scope: 'rider-7', ...because })).rejects.toMatchObject({
      code: 'PAWL_CLOSING',
    })
    expect(await operator.erase({ scope: 'rider-7', ...because })).toMatchObject({ complete: true })
    expect(await countKeys(database, 'rider-7')).toBe(0)
  })
})

describe('rows that cannot go', () => {
  test('because a frozen session has locked them are left and named, at once, and go the next time', async () => {
    const scope = 'rider-7'
    await fillKeys(database, scope, 700)
    await fillScope(database, scope, 'z')
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    for (const [table, where] of [
      ['idempotency_keys', `key IN ('k3', 'k600')`],
      ['effects', 'true'],
      ['staged_jobs', 'true'],
      ['interventions', 'true'],
      ['scope_usage', 'true'],
    ]) {
      await locker.query(
        `SELECT 1 FROM ${database.schema}.${table} WHERE scope = $1 AND ${where} FOR UPDATE`,
        [scope],
      )
    }
    const report = await operator.erase({ scope, ...because })
    expect(report.kept.map(({ what, why }) => `${what} ${why}`).toSorted()).toEqual([
      'effect locked',
      'intervention locked',
      'job locked',
      'key locked',
      'key locked',
      'usage locked',
    ])
    await locker.query('ROLLBACK')
    locker.release()
    expect(await operator.erase({ scope, ...because })).toMatchObject({ complete: true, erased: { keys: 2 } })
    expect(await dump(database)).not.toContain(scope)
  })

  test('because rows of the application refer to them are left and named, and all others go', async () => {
    const plain = await TestDatabase.createPlain()
    onTestFinished(() => plain.drop())
    await fillKeys(plain, 'rider-7', 40)
    await plain.rows(`CREATE TABLE ${plain.businessSchema}.trips (
      key_id uuid CONSTRAINT trips_key REFERENCES pawl.idempotency_keys (id) ON DELETE RESTRICT);
      INSERT INTO ${plain.businessSchema}.trips SELECT id FROM pawl.idempotency_keys WHERE key IN ('k3', 'k17')`)
    const own = createOperator({ pool: plain.pool(), schema: plain.schema })
    const report = await own.erase({ scope: 'rider-7', ...because })
    expect(report.erased.keys).toBe(38)
    expect(report.kept).toMatchObject([
      { what: 'key', name: 'k17', why: 'referenced' },
      { name: 'k3', why: 'referenced' },
    ])
  })
})

test('one key is erased with what belongs to it, also where its row is gone, and the others of its scope stay', async () => {
  await fillScope(database, 'rider-7', 'key-7')
  await fillScope(database, 'rider-7', 'key-8')
  await database.rows(`DELETE FROM pawl.idempotency_keys WHERE key = 'key-7'`)
  const others = await database.rows(`SELECT * FROM pawl.idempotency_keys`)
  expect(await operator.erase({ scope: 'rider-7', key: 'key-7', ...because })).toMatchObject({
    complete: true,
    erased: { keys: 0, effects: 1, jobs: 1, interventions: 1 },
  })
  expect(await dump(database)).not.toContain('key-7')
  expect(await database.rows(`SELECT * FROM pawl.idempotency_keys`)).toEqual(others)
  expect(await operator.erase({ scope: 'rider-7', key: 'key-8', ...because })).toMatchObject({
    erased: { keys: 1, effects: 1, jobs: 1, interventions: 1 },
  })
})

const notes = () =>
  database.rows<{ scope: string; detail: { given: { scopeHash: string }; counts: object | null } }>(
    `SELECT scope, key, action, actor, reason, detail FROM pawl.interventions WHERE action = 'erase' ORDER BY created_at`,
  )

describe('the record', () => {
  test('has a line before and one after, with a hash of the scope that a secret makes', async () => {
    const secret = createOperator({ pool: database.pool(), schema: database.schema, hashSecret: SECRET })
    const plain = await operator.erase({ scope: 'rider-7', ...because })
    const keyed = await secret.erase({ scope: 'rider-7', ...because })
    expect(plain.scopeHash).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(keyed.scopeHash).toMatch(/^hmac-sha256:[0-9a-f]{64}$/)
    expect((await secret.erase({ scope: 'rider-7', ...because })).scopeHash).toBe(keyed.scopeHash)
    const [first, second] = await notes()
    expect(first).toMatchObject({
      ...because,
      scope: '',
      key: null,
      detail: { given: { scopeHash: plain.scopeHash }, counts: null },
    })
    expect(second).toMatchObject({ ...because, detail: { counts: { keys: 0, kept: 0 } } })
  })

  test('never names what was erased: such a reason is refused before anything is done', async () => {
    await fillScope(database, 'rider-7', 'key-7')
    const before = await dump(database)
    for (const wrong of [
      { actor: 'rider-7', reason: 'me' },
      { actor: 'anna', reason: 'closed the account of rider-7' },
      { actor: 'anna', reason: 'key-7 was wrong' },
    ])
      await expect(operator.erase({ scope: 'rider-7', key: 'key-7', ...wrong })).rejects.toThrow(
        'names what is erased',
      )
    expect(await dump(database)).toBe(before)
  })

  test('of a dry run is not written', async () => {
    await operator.erase({ scope: 'rider-7', ...because, dryRun: true })
    expect(await notes()).toEqual([])
  })
})

describe('reconciliation after an erasure', () => {
  const from = daysAgo(5)
  const to = daysAgo(1)
  const at = daysAgo(2)

  test('finds erased effects by provider key, and with the secret also by reference', async () => {
    await seedEffect(database, { scope: 'rider-7', key: 'a', reference: 'ch_1', providerKey: 'pk_1', at })
    const secret = createOperator({ pool: database.pool(), schema: database.schema, hashSecret: SECRET })
    await secret.erase({ scope: 'rider-7', ...because })
    const compare = (record: object, more = {}) =>
      reconcile(operator, { from, to, records: () => [{ reference: 'ch_1', at, ...record }], ...more })
    expect(await compare({ providerKey: 'pk_1' })).toMatchObject({
      matched: 1,
      different: [],
      missingThere: [],
    })
    expect(await compare({})).toMatchObject({
      matched: 0,
      missingHere: [{ reference: 'ch_1' }],
      unmatchable: [{}],
    })
    expect(await compare({}, { hashSecret: SECRET })).toMatchObject({
      matched: 1,
      missingHere: [],
      unmatchable: [],
    })
  })
})

test('of the engine keeps effects for as long as the providers of its pipelines remember', async () => {
  await createRideTables(database)
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  await trial.execute(engine)
  await database.rows(`DELETE FROM pawl.staged_jobs`)
  expect(await engine.erase({ scope: trial.scope, ...because })).toMatchObject({
    kept: [{ why: 'recent_effect' }],
  })
  expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
  await database.rows(`UPDATE pawl.effects SET created_at = created_at - interval '25 hours'`)
  expect(await engine.erase({ scope: trial.scope, ...because })).toMatchObject({
    complete: true,
    erased: { keys: 1, effects: 1 },
  })
  expect(await dump(database)).not.toContain(trial.scope)
  await engine.close()
})

test('names the rights that its role lacks, and has erased nothing', async () => {
  await fillScope(database, 'rider-7', 'key-7')
  const role = `r_${randomUUID().replaceAll('-', '')}`
  await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.schema} TO ${role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.idempotency_keys, pawl.effects, pawl.staged_jobs TO ${role}`)
  onTestFinished(async () => void (await database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)))
  const poor = createOperator({
    pool: database.pool({ options: `-c role=${role}` }),
    schema: database.schema,
  })
  await expect(poor.erase({ scope: 'rider-7', ...because })).rejects.toMatchObject({
    code: 'PAWL_MISSING_RIGHT',
    message: expect.stringMatching(/GRANT SELECT, INSERT, UPDATE, DELETE ON \S+"interventions"/) as string,
  })
  expect(await countKeys(database, 'rider-7')).toBe(1)
})

test.each([
  [{ scope: '' }, 'scope'],
  [{ scope: 'a\0b' }, 'scope'],
  [{ key: '' }, 'key'],
  [{ windowMs: -1 }, 'windowMs'],
  [{ dryRun: 'no' }, 'dryRun'],
  [{ recentEffects: 1 }, 'recentEffects'],
  [{ force: true }, 'force'],
])('%j is refused', async (wrong, named) => {
  const asked = { scope: 'rider-7', ...because, ...wrong } as never
  await expect(operator.erase(asked)).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
    message: expect.stringContaining(named) as string,
  })
})

test('rows that a clock wrote which has gone back since are erased as well', async () => {
  await fillScope(database, 'rider-7', 'key-7', { createdAgo: '-1 hour' })
  await database.rows(`UPDATE pawl.interventions SET action = 'extend'`)
  for (const table of ['staged_jobs', 'interventions'])
    await database.rows(`UPDATE pawl.${table} SET created_at = clock_timestamp() + interval '1 hour'`)
  // Nobody can tell how old such an effect is.
  await seedEffect(database, { scope: 'rider-7', key: 'key-8', at: daysAgo(-1 / 24) })
  const report = await operator.erase({ scope: 'rider-7', ...because })
  expect(report).toMatchObject({
    erased: { keys: 1, effects: 1, jobs: 1, interventions: 1 },
    kept: [{ what: 'effect', name: 'key-8', why: 'recent_effect' }],
  })
  expect(await dump(database)).not.toContain('key-7')
})
