import { createBackground, respond, retryLater } from '@pawl/core'
import { executeAtomic } from '@pawl/core/internal'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { unattendedRide, completerOf, engineOf, NEVER_MS, NO_COUNTS } from '../support/completer-trial.js'
import { heard } from '../support/heard.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables, pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.createPlain()
await createRideTables(database)
afterAll(() => database.drop())
// Every test sees the whole table, since a completer takes what it finds.
beforeEach(() => database.rows('DELETE FROM pawl.idempotency_keys'))

const unattended = () => unattendedRide(database)

describe('start and stop', () => {
  test('an enqueued key wakes a completer at once, however seldom it polls', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    const idle = heard('pawl:round')
    completerOf(engine, { pollMs: NEVER_MS }).start()
    await idle
    const finished = heard('pawl:finished')
    await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
    await finished
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('more than one batch is run without a pause', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    for (const key of 'abcdefg') {
      await engine.enqueue(trial.pipeline, { scope: trial.scope, key, input: { amount: 1 } })
    }
    const finished = heard('pawl:finished', 7)
    completerOf(engine, { pollMs: NEVER_MS, batchSize: 2 }).start()
    await finished
  })

  test('stop waits for what is under way, and begins nothing new', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    const completer = completerOf(engine, { concurrency: 1, pollMs: NEVER_MS })
    await trial.provider.willMeet('hold_then_execute')
    for (const key of ['first', 'second']) {
      await engine.enqueue(trial.pipeline, { scope: trial.scope, key, input: { amount: 1 } })
    }
    completer.start()
    await trial.provider.arrived()
    const finished = hear('pawl:finished')
    const stopped = completer.stop()
    await trial.provider.letGo()
    await stopped
    expect(finished).toHaveLength(1)
    await engine.close()
    const fences = 'SELECT status, fence FROM pawl.idempotency_keys ORDER BY status'
    expect(await database.rows(fences)).toEqual([
      { status: 'finished', fence: '2' },
      { status: 'running', fence: '1' },
    ])
  })

  test('a stopped completer may be started again', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    const completer = completerOf(engine, { pollMs: NEVER_MS })
    completer.start()
    completer.start()
    await completer.stop()
    const finished = heard('pawl:finished')
    await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
    expect(await trial.row()).toMatchObject({ fence: '1' })
    completer.start()
    await finished
  })

  test('stop gives up waiting at its bound, and says so', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    const completer = completerOf(engine, { pollMs: NEVER_MS })
    await trial.provider.willMeet('hold_then_execute')
    await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
    completer.start()
    await trial.provider.arrived()
    const warnings = hear('pawl:warning')
    await completer.stop({ timeoutMs: 1 })
    expect(warnings).toMatchObject([{ message: expect.stringContaining('the completer was stopped before') }])
    const finished = heard('pawl:finished')
    await trial.provider.letGo()
    await finished
  })

  test('a stop with an invalid bound stops nothing, not even the wake signal', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    const completer = completerOf(engine, { pollMs: NEVER_MS })
    const idle = heard('pawl:round')
    completer.start()
    await idle
    await expect(completer.stop({ timeoutMs: -1 })).rejects.toMatchObject({ code: 'PAWL_INVALID_OPTION' })
    const finished = heard('pawl:finished')
    await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
    await finished
  })

  test('a round that fails is reported and tried again, and nothing else ends', async () => {
    const trial = new RideTrial(database)
    const engine = engineOf(trial)
    const failed = heard('pawl:round_failed')
    await database.rows('ALTER TABLE pawl.idempotency_keys RENAME TO hidden')
    completerOf(engine, { pollMs: 10 }).start()
    await failed
    const round = heard('pawl:round')
    await database.rows('ALTER TABLE pawl.hidden RENAME TO idempotency_keys')
    await round
  })

  test('a completer asks no more of an engine that has closed', async () => {
    const trial = await unattended()
    await database.expireLeases()
    const engine = engineOf(trial)
    const completer = completerOf(engine)
    await engine.close()
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
  })

  test.each([
    [{ pollMs: 0 }, 'createBackground: completer: pollMs is 0'],
    [{ batchSize: 0.5 }, 'createBackground: completer: batchSize is 0.5'],
    [{ concurrency: '4' }, "createBackground: completer: concurrency is '4'"],
    [{ concurency: 4 }, "createBackground: completer: unknown option 'concurency'"],
  ])('%j is refused', async (options, message) => {
    const engine = engineOf(new RideTrial(database))
    expect(() => createBackground({ engine, completer: options as never })).toThrow(message)
    await engine.close()
  })

  test('something that is not an engine is refused', () => {
    expect(() => createBackground({ engine: {} as never })).toThrow(
      'createBackground: engine is an object; it takes what createEngine returns.',
    )
  })
})

const atomic = pipeline<null>({ name: 'atomic.test', version: 1, maxAgeMs: 60_000 })
const handler = atomic.finish(() => retryLater())

const unattendedFor = (interval: string, key: string) =>
  database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint,
        fingerprint_version, input, holder, kind, created_at, lease_until)
     VALUES ('s', $2, 'atomic.test', 1, $3, sha256(''), 1, 'null', gen_random_uuid(), 'atomic',
             clock_timestamp() - $1::interval, clock_timestamp() - $1::interval)`,
    [interval, key, handler.definitionHash],
  )

describe('keys of atomic handlers', () => {
  test('are forgotten if nobody came back for them, since they have committed nothing', async () => {
    const engine = engineOf(new RideTrial(database))
    const completer = completerOf(engine)
    await executeAtomic(engine, handler, { scope: 's', key: 'asked', input: null })
    await unattendedFor('2 minutes', 'old')
    await unattendedFor('2 minutes', 'given back')
    await database.rows(`UPDATE pawl.idempotency_keys SET lease_until = NULL WHERE key = 'given back'`)
    await unattendedFor('30 seconds', 'young')
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, forgotten: 2 })
    expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([{ key: 'young' }])
  })

  test('stay if a row of the application refers to them, and keep no other key from being finished', async () => {
    const trial = await unattended()
    const engine = engineOf(trial)
    const completer = completerOf(engine)
    await executeAtomic(engine, handler, { scope: 's', key: 'asked', input: null })
    await unattendedFor('2 minutes', 'old')
    await database.rows('CREATE TABLE notes (key_id uuid REFERENCES pawl.idempotency_keys)')
    onTestFinished(async () => void (await database.rows('DROP TABLE notes')))
    await database.rows(`INSERT INTO notes SELECT id FROM pawl.idempotency_keys WHERE key = 'old'`)
    await database.expireLeases()
    const warnings = hear('pawl:warning')
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, completed: 1 })
    expect(warnings).toMatchObject([{ error: { code: '23503' } }])
  })

  test('stay while they are held, however old they are', async () => {
    const engine = engineOf(new RideTrial(database))
    const completer = completerOf(engine)
    const begun = gate()
    const mayEnd = gate()
    const slow = atomic.finish(async () => {
      begun.open()
      await mayEnd.opened
      return respond(200)
    })
    const outcome = executeAtomic(engine, slow, { scope: 's', key: 'held', input: null })
    await begun.opened
    await database.rows(`UPDATE pawl.idempotency_keys SET created_at = clock_timestamp() - interval '1 day'`)
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
    mayEnd.open()
    expect(await outcome).toMatchObject({ type: 'completed' })
  })
})
