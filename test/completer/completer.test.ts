import { type Engine, respond, retryLater } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  unattendedRide,
  BEFORE_SETTLE,
  completerOf,
  engineOf,
  NEVER_MS,
  NO_COUNTS,
} from '../support/completer-trial.js'
import { engineThatFreezesAt } from '../support/crash.js'
import { atMostOnceRideOf, queryableRideOf } from '../support/guarded-rides.js'
import { heard } from '../support/heard.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
// Every test looks at the whole table: a completer takes what it finds.
beforeEach(() => database.rows('DELETE FROM pawl.idempotency_keys'))

const unattended = (pipelineOf?: Parameters<typeof unattendedRide>[1], at?: string) =>
  unattendedRide(database, pipelineOf, at)

describe('a request whose client never came back', () => {
  test('is finished once its lease is over, with one charge, and replays', async () => {
    const trial = await unattended()
    const engine = engineOf(trial)
    const completer = completerOf(engine)

    expect(await completer.runOnce()).toEqual(NO_COUNTS)
    await database.expireLeases()
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, completed: 1 })

    expect(await trial.row()).toMatchObject({ status: 'finished', fence: '2' })
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed', response: { status: 201 } })
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
  })

  // Shows L1.
  test('is finished by a started completer within two leases of the crash', async () => {
    const trial = new RideTrial(database)
    // Short, because the test really waits for it; long enough that a slow machine ends within the second lease.
    const leaseMs = 3_000
    const finished = heard('pawl:finished')
    const doomed = engineThatFreezesAt(
      trial.options(database.pool(), { defaults: { leaseMs } }),
      BEFORE_SETTLE,
    )
    void trial.execute(doomed.engine)
    await doomed.frozen
    doomed.engine.halt()
    completerOf(engineOf(trial, { defaults: { leaseMs } }), { pollMs: 100 }).start()
    await finished
    const sql = `SELECT (trail->-1->>'t')::bigint - (trail->0->>'t')::bigint AS after_ms FROM pawl.idempotency_keys`
    const [row] = await database.rows<{ after_ms: string }>(sql)
    // From the last commit of the one that died, which is earlier than its crash.
    expect(Number(row?.after_ms)).toBeLessThan(2 * leaseMs)
    doomed.wake()
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('which is not due yet is left alone until its moment', async () => {
    const trial = await unattended()
    await database.expireLeases()
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp() + interval '1 hour'`)
    const completer = completerOf(engineOf(trial))
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp()`)
    expect(await completer.runOnce()).toMatchObject({ completed: 1 })
  })

  test('and fails again rests', async () => {
    const trial = await unattended(undefined, 'ride_created/commit#1:after')
    await database.expireLeases()
    const completer = completerOf(engineOf(trial))
    await trial.provider.willMeet('refuse_500')
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, retried: 1 })
    const [row] = await database.rows(
      `SELECT lease_until, run_after > updated_at - interval '1 second' AS rests, retries FROM pawl.idempotency_keys`,
    )
    expect(row).toEqual({ lease_until: null, rests: true, retries: 1 })
  })

  test.each([
    ['queryable: asked, not called again', queryableRideOf, 'completed', 1],
    ['at most once: a person decides', atMostOnceRideOf, 'stuck', 1],
  ] as const)('%s', async (_name, pipelineOf, end, charges) => {
    const trial = await unattended(pipelineOf)
    await database.expireLeases()
    const completer = completerOf(engineOf(trial))
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, [end]: 1 })
    expect(await trial.provider.ledger()).toHaveLength(charges)
    // What is stuck is not found again.
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
  })
})

describe('together with others', () => {
  test('two completers and a retrying client on one key: one charge, one fence more', async () => {
    const trial = await unattended()
    await database.expireLeases()
    const engines = [engineOf(trial), engineOf(trial), engineOf(trial)]
    const [first, second, client] = engines as [Engine<Database>, Engine<Database>, Engine<Database>]
    const [one, two, outcome] = await Promise.all([
      completerOf(first).runOnce(),
      completerOf(second).runOnce(),
      trial.execute(client),
    ])
    const ran = one.completed + two.completed + (outcome.type === 'completed' ? 1 : 0)
    expect(ran).toBe(1)
    expect(await trial.row()).toMatchObject({ status: 'finished', fence: '2' })
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.rides()).toHaveLength(1)
  })

  test('a hundred keys and three completers: each key is run once', async () => {
    const trial = new RideTrial(database)
    const engines = [engineOf(trial), engineOf(trial), engineOf(trial)]
    const [first] = engines as [Engine<Database>]
    for (let n = 0; n < 100; n++) {
      const request = { scope: trial.scope, key: `many-${n}`, input: { amount: n } }
      expect(await first.enqueue(trial.pipeline, request)).toMatchObject({ type: 'enqueued', fresh: true })
    }
    const counts = await Promise.all(engines.map((engine) => completerOf(engine).runOnce()))
    expect(counts.reduce((sum, { completed }) => sum + completed, 0)).toBe(100)
    const keys = await database.rows(`SELECT DISTINCT status, fence FROM pawl.idempotency_keys`)
    expect(keys).toEqual([{ status: 'finished', fence: '2' }])
    expect(await trial.provider.ledger()).toHaveLength(100)
    expect(await trial.rides()).toHaveLength(100)
  })

  test('a key that failed after it was found is not tried again before its back-off is over', async () => {
    const begun = gate()
    const mayEnd = gate()
    let failures = 0
    const failing = pipeline<RideInput>({ name: 'failing', version: 1 })
      .foreign('asked', {
        call: async ({ input }) => {
          if (input.amount > 0) throw new Error(`failure ${++failures}`)
          begun.open()
          await mayEnd.opened
          return {}
        },
      })
      .finish(() => respond(200))
    const trial = new RideTrial(database, () => failing)
    const [slow, quick] = [engineOf(trial), engineOf(trial)]
    await slow.enqueue(failing, { scope: trial.scope, key: 'slow', input: { amount: 0 } })
    const completer = completerOf(slow, { concurrency: 1 })
    // It has found all of them, and is at the slow one first.
    vi.spyOn(Math, 'random').mockReturnValue(0)
    onTestFinished(() => void vi.restoreAllMocks())
    await slow.enqueue(failing, { scope: trial.scope, key: 'other', input: { amount: 1 } })
    const round = completer.runOnce()
    await begun.opened
    vi.restoreAllMocks()
    await completerOf(quick).runOnce()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET run_after = clock_timestamp() + interval '1 hour' WHERE key = 'other'`,
    )
    mayEnd.open()
    expect(await round).toEqual({ ...NO_COUNTS, found: 2, completed: 1, passed: 1 })
    expect(failures).toBe(1)
  })

  test('what fails again and again does not hold up another pipeline', async () => {
    const bad = pipeline<RideInput>({ name: 'bad', version: 1 }).finish(() => retryLater())
    const good = pipeline<RideInput>({ name: 'good', version: 1 }).finish(() => respond(200))
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [bad, good] })
    for (let n = 0; n < 10; n++)
      await engine.enqueue(bad, { scope: 's', key: `bad-${n}`, input: { amount: 1 } })
    await engine.enqueue(good, { scope: 's', key: 'good', input: { amount: 1 } })
    const completer = completerOf(engine, { batchSize: 4 })
    expect(await completer.runOnce()).toMatchObject({ found: 4, completed: 1, retried: 3 })
  })

  test('of one pipeline, what has been due for longest comes first, whichever is oldest', async () => {
    const some = pipeline<RideInput>({ name: 'some', version: 1 }).finish(({ input }) =>
      input.amount > 0 ? respond(200) : retryLater(),
    )
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [some] })
    const completer = completerOf(engine, { batchSize: 1 })
    await engine.enqueue(some, { scope: 's', key: 'old', input: { amount: 0 } })
    expect(await completer.runOnce()).toMatchObject({ retried: 1 })
    await engine.enqueue(some, { scope: 's', key: 'young', input: { amount: 1 } })
    // It has just become due again.
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp() WHERE key = 'old'`)
    expect(await completer.runOnce()).toMatchObject({ completed: 1 })
  })

  test('a zombie that wakes after the completer has finished its key writes nothing more', async () => {
    const trial = new RideTrial(database)
    const zombie = engineThatFreezesAt(trial.options(), BEFORE_SETTLE)
    const outcome = trial.execute(zombie.engine)
    await zombie.frozen
    await database.expireLeases()
    expect(await completerOf(engineOf(trial)).runOnce()).toMatchObject({ completed: 1 })
    const before = await trial.row()
    zombie.wake()
    expect(await outcome).toMatchObject({ type: 'replayed', response: { status: 201 } })
    expect(await trial.row()).toEqual(before)
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.rides()).toHaveLength(1)
    await zombie.engine.close()
  })

  test('a key whose row somebody has locked is passed over, rests, and is finished later', async () => {
    const trial = await unattended()
    await database.expireLeases()
    const completer = completerOf(engineOf(trial))
    const locker = await database.admin.connect()
    await locker.query(`BEGIN; SELECT FROM ${database.schema}.idempotency_keys FOR UPDATE`)
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, passed: 1 })
    await locker.query('ROLLBACK')
    locker.release()
    let rounds = 0
    while ((await completer.runOnce()).completed === 0) expect(++rounds).toBeLessThan(100_000)
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('a slow key keeps its own place: others are found and finished meanwhile', async () => {
    const slow = await unattended()
    await database.expireLeases()
    const engine = engineOf(slow)
    const completer = completerOf(engine, { concurrency: 2, pollMs: NEVER_MS })
    await slow.provider.willMeet('hold_then_execute')
    completer.start()
    await slow.provider.arrived()
    const finished = heard('pawl:finished', 3)
    for (const key of ['a', 'b', 'c']) {
      await engine.enqueue(slow.pipeline, { scope: slow.scope, key, input: { amount: 1 } })
    }
    await finished
    const ended = heard('pawl:finished')
    await slow.provider.letGo()
    await ended
  })
})

const other = (version: number, phase: 'ride_created' | 'renamed') => () =>
  pipeline<RideInput>({ name: 'create-ride', version })
    .local(phase, () => {})
    .finish(() => respond(200))

describe('what it does not know', () => {
  test.each([
    ['another version', other(2, 'ride_created')],
    ['another definition of the same version', other(1, 'renamed')],
  ])('%s is not even selected', async (_name, pipelineOf) => {
    const trial = await unattended()
    await database.expireLeases()
    const stranger = new RideTrial(database, pipelineOf)
    const refusals = hear('pawl:refused')
    expect(await completerOf(engineOf(stranger)).runOnce()).toEqual(NO_COUNTS)
    expect(refusals).toEqual([])
    expect(await trial.row()).toMatchObject({ status: 'running', fence: '1' })
  })

  test('a third version is not selected along with one that can be gone on from', async () => {
    const trial = await unattended()
    await database.expireLeases()
    await database.rows('UPDATE pawl.idempotency_keys SET version = 3')
    const newer = pipeline<RideInput>({ name: 'create-ride', version: 2, upgradesFrom: [{ version: 1 }] })
    const stranger = new RideTrial(database, () => newer.finish(() => respond(200)))
    expect(await completerOf(engineOf(stranger)).runOnce()).toEqual(NO_COUNTS)
    expect(await trial.row()).toMatchObject({ status: 'running', fence: '1' })
  })

  test('a version that a newer one goes on from is', async () => {
    const trial = await unattended()
    await database.expireLeases()
    const newer = new RideTrial(database, () =>
      pipeline<RideInput>({ name: 'create-ride', version: 2, upgradesFrom: [{ version: 1 }] })
        .local('ride_created', () => {})
        .finish(() => respond(200)),
    )
    expect(await completerOf(engineOf(newer)).runOnce()).toMatchObject({ completed: 1 })
    expect(await trial.row()).toMatchObject({ status: 'finished' })
  })

  // Shows L1.
  test('keys that can never be had do not keep it from the others', async () => {
    // Where their recovery point is now, this does not say.
    const blocked = pipeline<RideInput>({
      name: 'create-ride',
      version: 2,
      upgradesFrom: [{ version: 1 }],
    }).finish(() => respond(200))
    for (let n = 0; n < 3; n++) await unattended()
    await database.expireLeases()
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [blocked] })
    await engine.enqueue(blocked, { scope: 's', key: 'later', input: { amount: 1 } })
    const completer = completerOf(engine, { batchSize: 1 })
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, passed: 1 })
    let rounds = 0
    while ((await completer.runOnce()).completed === 0) expect(++rounds).toBeLessThan(1_000)
  })

  test('nor do they if they are many more than it remembers, of the very same version', async () => {
    const BLOCKED = 1_500
    // What is at 'gone' cannot be gone on with, what is at 'started' can: both are of version 1.
    const newer = pipeline<RideInput>({
      name: 'some-ride',
      version: 2,
      upgradesFrom: [{ version: 1 }],
    }).finish(() => respond(200))
    await database.rows(
      `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
                                          input, holder, recovery_point, created_at)
       SELECT 's', n::text, 'some-ride', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid(),
              CASE WHEN n <= $1 THEN 'gone' ELSE 'started' END, clock_timestamp() - interval '1 hour' + n * interval '1 ms'
         FROM generate_series(1, $1 + 1) AS n`,
      [BLOCKED],
    )
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [newer] })
    const completer = completerOf(engine, { batchSize: 100, concurrency: 8 })
    let rounds = 1
    while ((await completer.runOnce()).completed === 0) expect(++rounds).toBeLessThanOrEqual(16)
    // A client that comes back while all of them rest costs two short looks at most.
    await engine.enqueue(newer, { scope: 's', key: 'later', input: { amount: 1 } })
    expect(await completer.runOnce()).toMatchObject({ completed: 1 })
  })
})

const poison = pipeline<RideInput>({ name: 'poison', version: 1, maxAttempts: 3 }).finish(() => {
  throw new TypeError('cannot read properties of undefined')
})

describe('a poison request', () => {
  test('is stuck at the cap, with the reason and the last error, and not tried again', async () => {
    const trial = new RideTrial(database, () => poison)
    const engine = engineOf(trial)
    await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
    const completer = completerOf(engine)
    const stuck = hear('pawl:stuck')
    const ends = []
    for (let round = 0; round < 4; round++) {
      await database.rows('UPDATE pawl.idempotency_keys SET run_after = NULL')
      ends.push(await completer.runOnce())
    }
    expect(ends.map(({ retried, stuck: given }) => [retried, given])).toEqual([
      [1, 0],
      [1, 0],
      [0, 1],
      [0, 0],
    ])
    expect(stuck).toMatchObject([
      { reason: 'attempts_exhausted', lastError: expect.stringContaining('TypeError') },
    ])
  })

  test('which kills its holder each time waits longer, each time, and is stuck at the cap', async () => {
    const trial = new RideTrial(database)
    expect(await trial.dieAt('reserve/insert_key#1:after')).toBe('died')
    const completer = completerOf(engineOf(trial, { defaults: { maxAttempts: 5 } }))
    // As if five holders had died: the lease of the last one ran out a moment ago.
    await database.rows(
      `UPDATE pawl.idempotency_keys SET attempts = 5, fence = 7, lease_until = clock_timestamp() - interval '1 ms'`,
    )
    const rests: number[] = []
    for (let fence = 7; fence < 27; fence++) {
      await database.rows('UPDATE pawl.idempotency_keys SET fence = $1', [fence])
      rests.push((await completer.runOnce()).found)
      await database.rows(`UPDATE pawl.idempotency_keys SET status = 'running', stuck_reason = NULL,
                              lease_until = clock_timestamp() - interval '1 ms'`)
    }
    // Full jitter: a few are due at once, most are not.
    expect(rests.filter((found) => found === 0).length).toBeGreaterThan(10)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() - interval '1 hour'`,
    )
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, stuck: 1 })
  })
})

test('it takes one statement to look, and one more to take a key over', async () => {
  const trial = new RideTrial(database)
  const steps: string[] = []
  const engine = createProbedEngine<Database>(trial.options(), ({ step, when }) => {
    if (when === 'before') steps.push(step)
  })
  await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
  expect(steps.splice(0)).toEqual(['insert_key'])
  await completerOf(engine).runOnce()
  expect(steps.slice(0, 3)).toEqual(['find_unattended_keys', 'find_key_by_id', 'take_over_key'])
})
