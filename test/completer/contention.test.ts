import { type Engine, respond, retryLater } from '@pawl/core'
import { afterAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  BEFORE_SETTLE,
  completerOf,
  engineOf,
  NEVER_MS,
  NO_COUNTS,
  unattendedRide,
} from '../support/completer-trial.js'
import { engineThatFreezesAt } from '../support/crash.js'
import { heard } from '../support/heard.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
// Every test sees the whole table, since a completer takes what it finds.
beforeEach(() => database.rows('DELETE FROM pawl.idempotency_keys'))

const unattended = () => unattendedRide(database)

describe('a completer beside others', () => {
  test('two completers and a retrying client on one key make one charge, and raise the fence by one', async () => {
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

  test('three completers run each of a hundred keys once', async () => {
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
    // It has found all keys, and runs the slow one first.
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

  test('keys that fail again and again do not hold up another pipeline', async () => {
    const bad = pipeline<RideInput>({ name: 'bad', version: 1 }).finish(() => retryLater())
    const good = pipeline<RideInput>({ name: 'good', version: 1 }).finish(() => respond(200))
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [bad, good] })
    for (let n = 0; n < 10; n++)
      await engine.enqueue(bad, { scope: 's', key: `bad-${n}`, input: { amount: 1 } })
    await engine.enqueue(good, { scope: 's', key: 'good', input: { amount: 1 } })
    const completer = completerOf(engine, { batchSize: 4 })
    expect(await completer.runOnce()).toMatchObject({ found: 4, completed: 1, retried: 3 })
  })

  test('a key that has just been tried waits for the others of its scope, even if it is the oldest', async () => {
    const some = pipeline<RideInput>({ name: 'some', version: 1 }).finish(({ input }) =>
      input.amount > 0 ? respond(200) : retryLater(),
    )
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [some] })
    const completer = completerOf(engine, { batchSize: 1 })
    await engine.enqueue(some, { scope: 's', key: 'old', input: { amount: 0 } })
    expect(await completer.runOnce()).toMatchObject({ retried: 1 })
    await engine.enqueue(some, { scope: 's', key: 'young', input: { amount: 1 } })
    // The old key has just become due again.
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp() WHERE key = 'old'`)
    expect(await completer.runOnce()).toMatchObject({ completed: 1 })
    expect(await completer.runOnce()).toMatchObject({ retried: 1 })
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

  test('a key whose row somebody has locked is passed over, put off, and finished later', async () => {
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

  test('a slow key takes up one place only, so that others are found and finished meanwhile', async () => {
    const slow = await unattended()
    await database.expireLeases()
    const engine = engineOf(slow)
    const completer = completerOf(engine, { concurrency: 2, concurrencyPerScope: 2, pollMs: NEVER_MS })
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
