import { createProbedEngine } from '@pawl/core/internal'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import {
  BEFORE_SETTLE,
  completerOf,
  engineOf,
  NO_COUNTS,
  unattendedRide,
} from '../support/completer-trial.js'
import { engineThatFreezesAt } from '../support/crash.js'
import { atMostOnceRideOf, queryableRideOf } from '../support/guarded-rides.js'
import { heard } from '../support/heard.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
// Every test sees the whole table, since a completer takes what it finds.
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
    // Short, because the test really waits for it; long enough for a slow machine to finish within the second lease.
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
    // This counts from the last commit of the one that died, which is earlier than its crash.
    expect(Number(row?.after_ms)).toBeLessThan(2 * leaseMs)
    doomed.wake()
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('is left alone until it is due', async () => {
    const trial = await unattended()
    await database.expireLeases()
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp() + interval '1 hour'`)
    const completer = completerOf(engineOf(trial))
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp()`)
    expect(await completer.runOnce()).toMatchObject({ completed: 1 })
  })

  test('is put off if it fails again', async () => {
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
    ['is asked about and not called again, if it is queryable', queryableRideOf, 'completed', 1],
    ['is left to a person, if it is at_most_once', atMostOnceRideOf, 'stuck', 1],
  ] as const)('%s', async (_name, pipelineOf, end, charges) => {
    const trial = await unattended(pipelineOf)
    await database.expireLeases()
    const completer = completerOf(engineOf(trial))
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, [end]: 1 })
    expect(await trial.provider.ledger()).toHaveLength(charges)
    // A key that is stuck is not found again.
    expect(await completer.runOnce()).toEqual(NO_COUNTS)
  })
})

const poison = pipeline<RideInput>({ name: 'poison', version: 1, maxAttempts: 3 }).finish(() => {
  throw new TypeError('cannot read properties of undefined')
})

describe('a poison request', () => {
  test('is stuck at the cap, with the reason and the last error, and is not tried again', async () => {
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

  test('waits longer each time that it kills its holder, and is stuck at the cap', async () => {
    const trial = new RideTrial(database)
    expect(await trial.dieAt('reserve/insert_key#1:after')).toBe('died')
    const completer = completerOf(engineOf(trial, { defaults: { maxAttempts: 5 } }))
    // As if five holders had died, and the lease of the last one had run out a moment ago.
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
    // With full jitter, a few are due at once, and most are not.
    expect(rests.filter((found) => found === 0).length).toBeGreaterThan(10)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() - interval '1 hour'`,
    )
    expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, stuck: 1 })
  })
})

test('finding keys takes one statement, and taking one over takes two more', async () => {
  const trial = new RideTrial(database)
  const steps: string[] = []
  const engine = createProbedEngine<Database>(trial.options(), ({ step, when }) => {
    if (when === 'before') steps.push(step)
  })
  await engine.enqueue(trial.pipeline, { scope: trial.scope, key: trial.key, input: { amount: 1 } })
  expect(steps.splice(0)).toEqual(['insert_key'])
  await completerOf(engine).runOnce()
  expect(steps.slice(0, 3)).toEqual(['find_unattended_keys', 'find_key', 'take_over_key'])
})
