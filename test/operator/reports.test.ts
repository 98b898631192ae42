import { randomUUID } from 'node:crypto'
import { createOperator, type EffectView, type KeyFilter, type Operator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { seedEffect, seedJob, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let operator: Operator
beforeEach(async () => {
  database = await TestDatabase.create()
  operator = createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })
})
afterEach(() => database.drop())

const because = { actor: 'anna@ops-1', reason: 'put right' }
const window = { from: new Date('2026-01-01T00:00:00Z'), to: new Date('2026-01-02T00:00:00Z') }

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

const zero = { count: 0, isAtLeast: false }

test('on an empty database, everything answers', async () => {
  expect(await operator.status()).toEqual({
    at: expect.any(Date) as Date,
    unfinished: [],
    unfinishedIsPartial: false,
    stuckBy: [],
    finished: zero,
    expired: zero,
    oldestUnattended: null,
    retriedForLong: null,
    jobs: { waiting: zero, dead: zero, oldestDueMs: null },
  })
  expect(await operator.list()).toEqual([])
  expect(await operator.list({ status: 'finished' })).toEqual([])
  expect(await operator.show({ scope: 's', key: 'k' })).toBeNull()
  expect(await operator.show({ keyId: randomUUID() })).toBeNull()
  expect(await operator.hasKeysOf('p')).toBe(false)
  expect(await operator.drain('p', 1)).toEqual([])
  expect(await operator.deadJobs()).toEqual([])
  expect(await operator.requeue({ all: true }, because)).toBe(0)
  expect(await operator.requeue({ jobIds: [] }, because)).toBe(0)
  expect(await all(operator.effects(window))).toEqual([])
  expect(await operator.countUnfinished(new Date())).toEqual(zero)
  expect(await operator.reap(because)).toEqual({ deleted: 0, held: 0, effectsDeleted: 0 })
})

describe('without the tables, every method says what to run', () => {
  const name = { scope: 's', key: 'k' }
  test.each<[string, (op: Operator) => Promise<unknown>]>([
    ['status', (op) => op.status()],
    ['list', (op) => op.list()],
    ['show', (op) => op.show(name)],
    ['show by id', (op) => op.show({ keyId: randomUUID() })],
    ['unstick', (op) => op.unstick(name, because)],
    ['revoke', (op) => op.revoke(name, because)],
    ['answer', (op) => op.answer(name, because, { status: 410 })],
    ['deadJobs', (op) => op.deadJobs()],
    ['requeue', (op) => op.requeue({ all: true }, because)],
    ['requeue by id', (op) => op.requeue({ jobIds: [randomUUID()] }, because)],
    ['reap', (op) => op.reap(because)],
    ['drain', (op) => op.drain('p', 1)],
    ['hasKeysOf', (op) => op.hasKeysOf('p')],
    ['effects', (op) => all(op.effects(window))],
    ['countUnfinished', (op) => op.countUnfinished(new Date())],
  ])('%s', async (_method, ask) => {
    const schema = `${database.schema}_none`
    await expect(ask(createOperator({ pool: database.pool(), schema }))).rejects.toMatchObject({
      code: 'PAWL_NOT_MIGRATED',
      message: expect.stringContaining(`migrate(pool, { schema: '${schema}' })`) as string,
    })
    // Tables of an older version lack columns.
    await database.rows('ALTER TABLE pawl.idempotency_keys RENAME COLUMN status TO old')
    await database.rows('ALTER TABLE pawl.staged_jobs RENAME COLUMN dead_at TO old')
    await database.rows('ALTER TABLE pawl.effects RENAME COLUMN created_at TO old')
    await expect(ask(operator)).rejects.toMatchObject({ code: 'PAWL_NOT_MIGRATED' })
  })
})

/** One of each: held, backing off, unattended (twice), stuck (twice), finished, expired. */
async function seedAll(): Promise<void> {
  await seedKey(database, { key: 'held', leaseIn: '1 min', createdAgo: '7 min' })
  await seedKey(database, { key: 'resting', leaseIn: '-5 min', runIn: '1 min', createdAgo: '6 min' })
  await seedKey(database, { key: 'lost', leaseIn: '-3 min', createdAgo: '5 min' })
  await seedKey(database, { key: 'due', runIn: '-2 min', createdAgo: '4 min', recoveryPoint: 'charged' })
  await seedKey(database, {
    key: 'stuck',
    status: 'stuck',
    stuckReason: 'unknown_outcome',
    createdAgo: '9 min',
  })
  await seedKey(database, { key: 'old', status: 'stuck', version: 2, createdAgo: '3 min', scope: 'other' })
  await seedKey(database, { key: 'done', status: 'finished' })
  await seedKey(database, { key: 'over', status: 'finished', expiresIn: '-1 min' })
  await seedKey(database, {
    key: 'atomic',
    pipeline: 'atomic.post.rides',
    kind: 'atomic',
    leaseIn: '-1 h',
    createdAgo: '2 h',
  })
}

test('status counts by where the keys stand and who has to act', async () => {
  await seedAll()
  await seedJob(database, { dueAgo: '10 min' })
  await seedJob(database, { dueAgo: '-10 min' })
  await seedJob(database, { deadAgo: '1 min' })
  const status = await operator.status()
  const none = { held: 0, backingOff: 0, unattended: 0, stuck: 0, oldestCreatedAt: expect.any(Date) as Date }
  expect(status).toMatchObject({
    unfinished: [
      { ...none, pipeline: 'atomic.post.rides', version: 1, recoveryPoint: 'started', unattended: 1 },
      {
        ...none,
        pipeline: 'seeded',
        version: 1,
        recoveryPoint: 'started',
        held: 1,
        backingOff: 1,
        unattended: 1,
        stuck: 1,
      },
      { ...none, pipeline: 'seeded', version: 1, recoveryPoint: 'charged', unattended: 1 },
      { ...none, pipeline: 'seeded', version: 2, recoveryPoint: 'started', stuck: 1 },
    ],
    unfinishedIsPartial: false,
    stuckBy: [
      { reason: 'too_old', count: 1 },
      { reason: 'unknown_outcome', count: 1 },
    ],
    finished: { count: 2, isAtLeast: false },
    expired: { count: 1, isAtLeast: false },
    // The atomic one waits for its client.
    oldestUnattended: { scope: 'seeded', key: 'lost' },
    jobs: { waiting: { count: 2, isAtLeast: false }, dead: { count: 1, isAtLeast: false } },
  })
  expect(status.oldestUnattended?.sinceMs).toBeGreaterThanOrEqual(180_000)
  expect(status.oldestUnattended?.sinceMs).toBeLessThan(300_000)
  expect(status.jobs.oldestDueMs).toBeGreaterThanOrEqual(600_000)
})

test('a job that is not due yet is not overdue', async () => {
  await seedJob(database, { dueAgo: '-1 min' })
  expect((await operator.status()).jobs).toMatchObject({ waiting: { count: 1 }, oldestDueMs: null })
})

test('counts stop at their bound, and say so', async () => {
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
                                        input, holder)
     SELECT 'many', n::text, 'many', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid()
       FROM generate_series(1, 100001) AS n`,
  )
  await database.rows(
    `INSERT INTO pawl.staged_jobs (id, name, payload, key_id)
     SELECT gen_random_uuid(), 'mail', '{}', gen_random_uuid() FROM generate_series(1, 100001)`,
  )
  const status = await operator.status()
  expect(status).toMatchObject({
    unfinished: [{ unattended: 100_000 }],
    unfinishedIsPartial: true,
    finished: zero,
    jobs: { waiting: { count: 100_000, isAtLeast: true }, dead: zero },
  })
  const soon = new Date(status.at.getTime() + 60_000)
  expect(await operator.countUnfinished(soon)).toEqual({ count: 100_000, isAtLeast: true })
})

describe('list', () => {
  test.each<[KeyFilter, string[]]>([
    [{}, ['atomic', 'stuck', 'held', 'resting', 'lost', 'due', 'old']],
    [{ limit: 2 }, ['atomic', 'stuck']],
    [{ status: 'running' }, ['atomic', 'held', 'resting', 'lost', 'due']],
    [{ status: 'unattended' }, ['atomic', 'lost', 'due']],
    [{ status: 'stuck' }, ['stuck', 'old']],
    [{ status: 'finished' }, ['over', 'done']],
    [{ pipeline: 'seeded', version: 1, status: 'stuck' }, ['stuck']],
    [{ version: 2 }, ['old']],
    [{ pipeline: 'none' }, []],
    [{ recoveryPoint: 'charged' }, ['due']],
    [{ scope: 'other' }, ['old']],
    [{ stuckReason: 'unknown_outcome' }, ['stuck']],
    [{ olderThanMs: 6.5 * 60_000 }, ['atomic', 'stuck', 'held']],
    [{ olderThanMs: 6.5 * 60_000, status: 'unattended', pipeline: 'seeded' }, []],
  ])('%o', async (filter, keys) => {
    await seedAll()
    expect((await operator.list(filter)).map(({ key }) => key)).toEqual(keys)
  })

  test.each<[object, string]>([
    [{ status: 'lost' }, 'status'],
    [{ stuckReason: 'bored' }, 'stuckReason'],
    [{ limit: 0 }, 'limit'],
    [{ limit: 1_001 }, 'limit'],
    [{ version: 1.5 }, 'version'],
    [{ scope: '' }, 'scope'],
    [{ olderThanMs: -1 }, 'olderThanMs'],
    [{ sort: 'asc' }, `'sort'`],
  ])('%o is refused', async (filter, named) => {
    await expect(operator.list(filter)).rejects.toMatchObject({
      code: 'PAWL_INVALID_OPTION',
      message: expect.stringContaining(named) as string,
    })
  })
})

test('show gives a key with its effects, jobs and interventions, and of no other', async () => {
  await createRideTables(database)
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  await trial.execute(engine)
  await trial.execute(engine)
  const other = new RideTrial(database)
  await other.execute(createEngine(other.options()))
  await engine.close()
  const keyId = (await trial.row())?.id ?? ''
  await seedJob(database, { name: 'dead_letter', keyId, deadAgo: '1 min' })
  const name = { scope: trial.scope, key: trial.key }
  // An effect of an earlier key of the same names, which the reaper has deleted.
  await database.rows(
    `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key)
     VALUES (gen_random_uuid(), $1, $2, 'create-ride', 1, 1, 'x', 'x', 'x')`,
    [trial.scope, trial.key],
  )
  await database.rows(
    `INSERT INTO pawl.interventions (key_id, action, actor, detail) VALUES ($1, 'revoke', 'anna', '{"before":null}')`,
    [keyId],
  )
  const [charge] = await trial.provider.ledger()
  expect(await operator.show(name)).toMatchObject({
    key: { keyId, status: 'finished', response: { status: 201 } },
    effects: [
      {
        keyId,
        ...name,
        phase: 'charge_created',
        effectName: 'charge_created',
        reference: charge?.id,
        fence: 1,
      },
    ],
    jobs: [
      { name: 'send_receipt', keyId, attempts: 0, deadAt: null },
      { name: 'dead_letter', payload: { n: 1 }, lastError: 'queue away', deadAt: expect.any(Date) as Date },
    ],
    interventions: [{ action: 'revoke', actor: 'anna', reason: null, detail: { before: null } }],
  })
  expect((await operator.show(name))?.effects).toHaveLength(1)
  expect(await operator.show({ keyId })).toEqual(await operator.show(name))
})

test('drain tells what a version still has in flight', async () => {
  await seedAll()
  expect(await operator.drain('seeded', 2)).toMatchObject([{ version: 2, stuck: 1, unattended: 0 }])
  expect(await operator.drain('seeded', 1)).toMatchObject([{ stuck: 1, held: 1 }, { unattended: 1 }])
  expect(await operator.drain('seeded', 3)).toEqual([])
  await expect(operator.drain('seeded', undefined as never)).rejects.toThrow(/version is undefined/)
  await expect(operator.drain('', 1)).rejects.toThrow(/pipeline/)
})

test('a pipeline has keys in any status, of any version, or none', async () => {
  for (const status of ['running', 'stuck', 'finished'] as const) {
    await seedKey(database, { pipeline: status, status, version: 7 })
  }
  for (const name of ['running', 'stuck', 'finished']) expect(await operator.hasKeysOf(name)).toBe(true)
  expect(await operator.hasKeysOf('unheard-of')).toBe(false)
  await expect(operator.hasKeysOf('')).rejects.toThrow(/hasKeysOf: pipeline/)
})

describe('effects', () => {
  test('of a window: its first moment is in it, its last is not; oldest first', async () => {
    await seedEffect(database, { reference: 'last in', at: '2026-01-01T23:59:59.999999Z' })
    await seedEffect(database, { reference: 'before', at: '2025-12-31T23:59:59.999999Z' })
    await seedEffect(database, { reference: 'first in', at: window.from })
    await seedEffect(database, { reference: 'after', at: window.to })
    const found = await all<EffectView>(operator.effects(window))
    expect(found.map(({ reference }) => reference)).toEqual(['first in', 'last in'])
  })

  test('more than a batch, many of them at one moment: each once', async () => {
    await database.rows(
      `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, created_at)
       SELECT gen_random_uuid(), 's', 'k', 'p', 1, 1, 'x', 'x', n::text,
              timestamptz '2026-01-01T10:00:00.123456Z' + (n / 700) * interval '1 microsecond'
         FROM generate_series(1, 2100) AS n`,
    )
    const found = await all(operator.effects(window))
    expect(found).toHaveLength(2_100)
    expect(new Set(found.map(({ providerKey }) => providerKey)).size).toBe(2_100)
  })

  test.each([
    [{ from: window.to, to: window.from }, /to is/],
    [{ from: new Date(Number.NaN), to: window.to }, /from/],
    [{ from: '2026-01-01', to: window.to }, /from is '2026-01-01'/],
    [{ ...window, limit: 1 }, /'limit'/],
  ])('%o is refused', (wrong, message) => {
    expect(() => operator.effects(wrong as never)).toThrow(message)
  })
})

const audit = () =>
  database.rows<{ key_id: string; scope: string | null; action: string; detail: unknown }>(
    'SELECT key_id, scope, action, actor, reason, detail FROM pawl.interventions ORDER BY created_at',
  )

describe('dead jobs', () => {
  test('are listed, the longest dead first', async () => {
    await seedJob(database, { name: 'b', deadAgo: '1 min' })
    await seedJob(database, { name: 'a', deadAgo: '2 min' })
    await seedJob(database, { name: 'alive' })
    expect((await operator.deadJobs()).map(({ name }) => name)).toEqual(['a', 'b'])
    expect((await operator.deadJobs({ limit: 1 })).map(({ name }) => name)).toEqual(['a'])
    expect((await operator.deadJobs({ name: 'b' })).map(({ name }) => name)).toEqual(['b'])
    await expect(operator.deadJobs({ limit: 0 })).rejects.toThrow(/limit/)
    await expect(operator.deadJobs({ nam: 'b' } as never)).rejects.toThrow(/'nam'/)
  })

  test('those of an id are delivered again as new, and each is written down', async () => {
    const keyId = await seedKey(database, { scope: 'anna', key: 'k1' })
    const dead = await seedJob(database, { name: 'a', keyId, deadAgo: '1 min' })
    const other = await seedJob(database, { deadAgo: '1 min' })
    const alive = await seedJob(database, { name: 'alive' })
    expect(await operator.requeue({ jobIds: [dead, alive, randomUUID()] }, because)).toBe(1)
    const [row] = await database.rows(
      `SELECT dead_at, attempts, claim, claim_until, run_after <= clock_timestamp() AS due, last_error
         FROM pawl.staged_jobs WHERE id = $1`,
      [dead],
    )
    expect(row).toEqual({
      dead_at: null,
      attempts: 0,
      claim: null,
      claim_until: null,
      due: true,
      last_error: 'queue away',
    })
    expect((await operator.deadJobs()).map(({ jobId }) => jobId)).toEqual([other])
    expect(await database.rows('SELECT attempts FROM pawl.staged_jobs WHERE id = $1', [alive])).toEqual([
      { attempts: 7 },
    ])
    expect(await audit()).toMatchObject([
      {
        ...because,
        action: 'requeue',
        key_id: keyId,
        scope: 'anna',
        detail: {
          before: { jobId: dead, name: 'a', attempts: 7, lastError: 'queue away' },
          given: { by: 'id' },
        },
      },
    ])
  })

  test('those of a name, or all, in batches; each is written down, also where its key is gone', async () => {
    await seedJob(database, { name: 'a', deadAgo: '1 min' })
    await seedJob(database, { name: 'b', deadAgo: '1 min' })
    expect(await operator.requeue({ name: 'a' }, because)).toBe(1)
    expect(await operator.requeue({ name: 'a' }, because)).toBe(0)
    expect(await audit()).toMatchObject([{ scope: null, detail: { given: { name: 'a' } } }])
    await database.rows(
      `INSERT INTO pawl.staged_jobs (id, name, payload, key_id, dead_at)
       SELECT gen_random_uuid(), 'c', '{}', gen_random_uuid(), clock_timestamp() FROM generate_series(1, 1100)`,
    )
    expect(await operator.requeue({ all: true }, because)).toBe(1_101)
    expect(await operator.deadJobs()).toEqual([])
    expect(await audit()).toHaveLength(1_102)
  })

  test('two operators at once: each job once', async () => {
    await database.rows(
      `INSERT INTO pawl.staged_jobs (id, name, payload, key_id, dead_at)
       SELECT gen_random_uuid(), 'c', '{}', gen_random_uuid(), clock_timestamp() FROM generate_series(1, 1100)`,
    )
    const second = createOperator({ pool: database.pool(), schema: database.schema })
    const counts = await Promise.all([operator, second].map((each) => each.requeue({ all: true }, because)))
    // What the other has locked is the other's: nothing may be left by both but what a third round finds.
    const rest = await operator.requeue({ all: true }, because)
    expect((counts[0] ?? 0) + (counts[1] ?? 0) + rest).toBe(1_100)
    expect(await audit()).toHaveLength(1_100)
  })

  test.each([
    [{}, /one of jobIds, name and all/],
    [{ all: true, name: 'a' }, /one of jobIds, name and all/],
    [{ all: false }, /all is false/],
    [{ jobIds: 'x' }, /jobIds/],
    [{ jobIds: ['x'] }, /jobIds/],
    [{ name: '' }, /name/],
    [null, /object/],
  ])('%o is refused', async (jobs, message) => {
    await expect(operator.requeue(jobs as never, because)).rejects.toThrow(message)
  })
})

test('reap deletes what has expired, and a row before and one after say so', async () => {
  await seedAll()
  await seedEffect(database, { at: new Date('2020-01-01') })
  const counts = { deleted: 1, held: 0, effectsDeleted: 1 }
  expect(await operator.reap(because)).toEqual(counts)
  expect((await operator.list({ status: 'finished' })).map(({ key }) => key)).toEqual(['done'])
  expect(await operator.list()).toHaveLength(7)
  const rows = await database.rows(
    'SELECT action, actor, reason, key_id, detail FROM pawl.interventions ORDER BY created_at',
  )
  const note = { ...because, action: 'reap', key_id: null }
  expect(rows).toMatchObject([
    { ...note, detail: { counts: null } },
    { ...note, detail: { counts } },
  ])
})

test('a reap that fails on its way has its row all the same, without counts', async () => {
  await seedAll()
  await database.rows('ALTER TABLE pawl.effects RENAME TO hidden')
  await expect(operator.reap(because)).rejects.toMatchObject({ code: 'PAWL_NOT_MIGRATED' })
  await database.rows('ALTER TABLE pawl.hidden RENAME TO effects')
  expect((await operator.list({ status: 'finished' })).map(({ key }) => key)).toEqual(['done'])
  const rows = await database.rows('SELECT action, actor, reason, detail FROM pawl.interventions')
  expect(rows).toMatchObject([{ ...because, action: 'reap', detail: { counts: null } }])
})

test('reap keeps effects for as long as it is told', async () => {
  await seedEffect(database, { at: new Date('2020-01-01') })
  const century = 100 * 365 * 24 * 3_600_000
  expect(await operator.reap(because, { effectRetentionMs: century })).toMatchObject({ effectsDeleted: 0 })
  await expect(operator.reap(because, { effectRetention: 1 } as never)).rejects.toThrow(/'effectRetention'/)
})

test('countUnfinished counts those of before the moment', async () => {
  await seedAll()
  const before = new Date(Date.now() - 6.5 * 60_000)
  expect(await operator.countUnfinished(before)).toEqual({ count: 3, isAtLeast: false })
  await expect(operator.countUnfinished('now' as never)).rejects.toThrow(/before is 'now'/)
})
