import { randomUUID } from 'node:crypto'
import { createOperator, type EffectView, type KeyFilter, type Operator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { seedEffect, seedJob, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { seedAll } from './seeded-conditions.js'
import { onlyDeep } from '../support/amounts.js'

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

test('every method answers on an empty database', async () => {
  expect(await operator.status()).toEqual({
    at: expect.any(Date) as Date,
    layout: expect.objectContaining({ kind: expect.any(String) as string }) as object,
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
  expect(await operator.reap(because)).toEqual({
    deleted: 0,
    held: 0,
    effectsDeleted: 0,
    usageDeleted: 0,
    duplicatesDeleted: 0,
  })
})

describe('every method says what to run where the tables are missing', () => {
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

test('status counts keys by recovery point and by who has to act', async () => {
  await seedAll(database)
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

onlyDeep(() => {
  test('counts stop at their limit, and say so', async () => {
    await database.rows(
      `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
                                        input, holder)
     SELECT 'many', n::text, 'many', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid()
       FROM generate_series(1, 100001) AS n`,
    )
    await database.rows(
      `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id)
     SELECT gen_random_uuid(), 'many', 1, 'mail', '{}', gen_random_uuid() FROM generate_series(1, 100001)`,
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
    await seedAll(database)
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

test('show returns a key with its own effects, jobs and interventions, and with no others', async () => {
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
    `INSERT INTO pawl.interventions (key_id, scope, action, actor, detail)
     VALUES ($1, $2, 'revoke', 'anna', '{"before":null}')`,
    [keyId, trial.scope],
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
      { name: 'dead_letter', payload: { n: 1 }, lastError: 'queue away', deadAt: expect.any(Date) as Date },
      { name: 'send_receipt', keyId, attempts: 0, deadAt: null },
    ],
    interventions: [{ action: 'revoke', actor: 'anna', reason: null, detail: { before: null } }],
  })
  expect((await operator.show(name))?.effects).toHaveLength(1)
  expect(await operator.show({ keyId })).toEqual(await operator.show(name))
})

test('drain returns what a version still has in flight', async () => {
  await seedAll(database)
  expect(await operator.drain('seeded', 2)).toMatchObject([{ version: 2, stuck: 1, unattended: 0 }])
  expect(await operator.drain('seeded', 1)).toMatchObject([{ stuck: 1, held: 1 }, { unattended: 1 }])
  expect(await operator.drain('seeded', 3)).toEqual([])
  await expect(operator.drain('seeded', undefined as never)).rejects.toThrow(/version is undefined/)
  await expect(operator.drain('', 1)).rejects.toThrow(/pipeline/)
})

test('hasKeysOf finds keys in any status and of any version', async () => {
  for (const status of ['running', 'stuck', 'finished'] as const) {
    await seedKey(database, { pipeline: status, status, version: 7 })
  }
  for (const name of ['running', 'stuck', 'finished']) expect(await operator.hasKeysOf(name)).toBe(true)
  expect(await operator.hasKeysOf('unheard-of')).toBe(false)
  await expect(operator.hasKeysOf('')).rejects.toThrow(/hasKeysOf: pipeline/)
})

describe('effects', () => {
  test('are returned oldest first, from the first moment of the window up to, but not including, its last', async () => {
    await seedEffect(database, { reference: 'last in', at: '2026-01-01T23:59:59.999999Z' })
    await seedEffect(database, { reference: 'before', at: '2025-12-31T23:59:59.999999Z' })
    await seedEffect(database, { reference: 'first in', at: window.from })
    await seedEffect(database, { reference: 'after', at: window.to })
    const found = await all<EffectView>(operator.effects(window))
    expect(found.map(({ reference }) => reference)).toEqual(['first in', 'last in'])
  })

  test('are returned once each, where there are more than a batch, many of them at one moment', async () => {
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

test('countUnfinished counts keys reserved before the moment', async () => {
  await seedAll(database)
  const before = new Date(Date.now() - 6.5 * 60_000)
  expect(await operator.countUnfinished(before)).toEqual({ count: 3, isAtLeast: false })
  await expect(operator.countUnfinished('now' as never)).rejects.toThrow(/before is 'now'/)
})
