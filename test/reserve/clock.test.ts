import { randomUUID } from 'node:crypto'
import { absent, type Engine, found, type Pipeline, respond } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const HOUR_MS = 3_600_000
const LEASE_MS = 30_000
/** Half of what the clock is wrong by, so that anything judged by the wrong clock is judged wrongly. */
const HALF_HOUR_MS = HOUR_MS / 2

describe.each([
  ['an hour slow', -HOUR_MS],
  ['right', 0],
  ['an hour fast', HOUR_MS],
])('with an application clock that is %s', (_, offsetMs) => {
  let database: TestDatabase
  let provider: Provider
  let engine: Engine<Database>
  let key: string

  beforeEach(async () => {
    database = await TestDatabase.create()
    await createRideTables(database)
    provider = new Provider(inject('providerUrl'))
    key = randomUUID()
    // Only Date is replaced, and stands still from here on; timers and the monotonic clock go on.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + offsetMs })
  })
  afterEach(async () => {
    await engine.close()
    vi.useRealTimers()
    await database.drop()
  })

  function open(...pipelines: Pipeline<Database, RideInput>[]): void {
    const defaults = { leaseMs: LEASE_MS, maxAgeMs: HALF_HOUR_MS, retentionMs: HOUR_MS }
    engine = createEngine({ pool: database.pool(), pipelines, schema: database.schema, defaults })
  }
  const execute = (ride: Pipeline<Database, RideInput>) =>
    engine.execute(ride, { scope: 's', key, input: { amount: 9 } })

  /** How far a time of the key's row is from now, in milliseconds; both are read from the database's clock. */
  async function fromNowMs(column: string): Promise<number> {
    const sql = `SELECT extract(epoch FROM ${column} - clock_timestamp())::float8 * 1000 AS ms FROM pawl.idempotency_keys`
    return (await database.rows<{ ms: number }>(sql))[0]?.ms ?? Number.NaN
  }

  // Its calls may be repeated for half an hour.
  const rideWithin = (windowMs: number) =>
    pipeline<RideInput>({ name: 'charges', version: 1 })
      .foreign('charged', {
        call: ({ input, idempotencyKey, signal }) =>
          provider.charge(input.amount, { idempotencyKey, signal }),
        settle: ({ result }) => ({ chargeId: result.id }),
        windowMs,
      })
      .finish(({ state }) => respond(201, { charge: state.chargeId }))

  test('a request runs, and expires when the database says so', async () => {
    const ride = rideWithin(HALF_HOUR_MS)
    open(ride)
    const outcome = await execute(ride)
    if (outcome.type !== 'completed') throw outcome
    const leftMs = await fromNowMs('expires_at')
    expect(leftMs).toBeLessThanOrEqual(HOUR_MS)
    expect(leftMs).toBeGreaterThan(HOUR_MS - 60_000)
    const [row] = await database.rows<{ ms: string }>(
      'SELECT floor(extract(epoch FROM expires_at) * 1000) AS ms FROM pawl.idempotency_keys',
    )
    expect(outcome.expiresAt.getTime()).toBe(Number(row?.ms))
    expect(await execute(ride)).toMatchObject({ type: 'replayed', expiresAt: outcome.expiresAt })
  })

  test('a finished key replays, even if one of the clocks considers it expired', async () => {
    const ride = rideWithin(HALF_HOUR_MS)
    open(ride)
    await execute(ride)
    await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 ms'`)
    expect(await execute(ride)).toMatchObject({ type: 'replayed' })
  })

  test("a duplicate is told how long the lease still lasts, by the database's clock", async () => {
    const ride = rideWithin(HALF_HOUR_MS)
    open(ride)
    await provider.willMeet('hold_then_execute')
    const running = execute(ride)
    await provider.arrived()
    const leftMs = await fromNowMs('lease_until')
    expect(leftMs).toBeGreaterThan(0)
    expect(leftMs).toBeLessThanOrEqual(LEASE_MS)
    const duplicate = await execute(ride)
    if (duplicate.type !== 'in_flight') throw duplicate
    expect(duplicate.retryAfterMs).toBeGreaterThan(0)
    expect(duplicate.retryAfterMs).toBeLessThanOrEqual(leftMs)
    await provider.letGo()
    expect(await running).toMatchObject({ type: 'completed' })
    expect(await provider.ledger()).toHaveLength(1)
  })

  test("a key is taken over once its lease has ended by the database's clock, and its call is repeated within the window", async () => {
    const ride = rideWithin(HALF_HOUR_MS)
    open(ride)
    await provider.willMeet('execute_then_hold')
    const zombie = execute(ride)
    await provider.arrived()
    expect(await execute(ride)).toMatchObject({ type: 'in_flight' })
    await database.expireLeases()
    const outcome = await execute(ride)
    if (outcome.type !== 'completed') throw outcome
    await provider.letGo()
    expect(await zombie).toMatchObject({ type: 'replayed', response: outcome.response })
    expect(await provider.ledger()).toHaveLength(1)
  })

  test("a key is too old, or past its window, once the database's clock says so", async () => {
    const ride = rideWithin(HALF_HOUR_MS)
    open(ride)
    await provider.willMeet('refuse_500', 'refuse_500')
    expect(await execute(ride)).toMatchObject({ type: 'retry_later' })
    expect(await fromNowMs('created_at')).toBeGreaterThan(-60_000)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET created_at = created_at - interval '29 minutes', run_after = NULL`,
    )
    expect(await execute(ride)).toMatchObject({ type: 'retry_later' })
    await database.rows(`UPDATE pawl.idempotency_keys SET created_at = created_at - interval '1 minute'`)
    expect(await execute(ride)).toMatchObject({ type: 'stuck', reason: 'too_old' })
  })

  test("an interrupted call counts as absent only after its quiet time by the database's clock", async () => {
    const ride = pipeline<RideInput>({ name: 'asks', version: 1 })
      .foreign('charged', {
        call: ({ input, idempotencyKey, signal }) =>
          provider.charge(input.amount, { idempotencyKey, signal }),
        guarantee: 'queryable',
        quietForMs: HALF_HOUR_MS,
        reconcile: async ({ idempotencyKey }) => {
          const charge = await provider.find(idempotencyKey)
          return charge === null ? absent() : found(charge)
        },
      })
      .finish(() => respond(201))
    open(ride)
    await provider.willMeet('never_arrives')
    expect(await execute(ride)).toMatchObject({ type: 'retry_later', reason: 'transient_error' })
    const pending = await execute(ride)
    if (pending.type !== 'retry_later') throw pending
    expect(pending.reason).toBe('outcome_pending')
    // The call's own time-out, and the quiet time after it.
    expect(pending.retryAfterMs).toBeLessThanOrEqual(HALF_HOUR_MS + 30_000)
    expect(pending.retryAfterMs).toBeGreaterThan(HALF_HOUR_MS - 30_000)
    expect(await fromNowMs('run_after')).toBeGreaterThan(HALF_HOUR_MS - 60_000)
    expect(await provider.ledger()).toEqual([])
  })
})
