import { createOperator } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import { RideTrial } from '../support/ride-trial.js'
import { hear, waitingForLock } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { because, digestOf, nameOf, StuckRides } from './stuck-rides.js'

const { database, operator, execute, audit, stuckOnce, stuckByAge } = await StuckRides.create()
afterAll(() => database.drop())

describe('revoke', () => {
  test('keeps the holder from writing, and the request has one effect', async () => {
    const trial = new RideTrial(database)
    const fencedOff = hear('pawl:fenced_off')
    const { engine, frozen, wake } = engineThatFreezesAt(trial.options(), 'ride_created/advance_key#1:before')
    const zombie = trial.execute(engine)
    await frozen
    expect(await operator.revoke(nameOf(trial), because)).toMatchObject({
      type: 'done',
      key: { status: 'running', fence: 2, lease: null, attempts: 1 },
    })
    // Nobody has finished it yet: the revocation alone fences the holder off.
    wake()
    expect(await zombie).toMatchObject({ type: 'in_flight', fencedOff: true })
    expect(fencedOff).toMatchObject([{ phase: 'ride_created', fence: 1 }])
    expect(await trial.rides()).toEqual([])
    await engine.close()

    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.rides()).toHaveLength(1)
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await audit(trial)).toMatchObject([
      {
        ...because,
        action: 'revoke',
        detail: { before: { fence: 1, leaseUntil: expect.any(String) as string } },
      },
    ])
  })

  test('waits for a holder that is about to commit, and takes the key as it was committed', async () => {
    const trial = new RideTrial(database)
    // So that it has written the row and can be stopped before its COMMIT.
    const options = trial.options(database.pool(), { pipelining: false })
    const { engine, stops } = engineWithStops(
      options,
      'ride_created/commit#1:before',
      'charge_created/call#1:before',
    )
    const holder = trial.execute(engine)
    const [commit, call] = stops
    await commit.reached
    const application_name = `revoking_${trial.key}`
    const own = { pool: database.pool({ max: 1, application_name }), schema: database.schema }
    const revoking = createOperator(own).revoke(nameOf(trial), because)
    await waitingForLock(database, application_name)
    commit.go()
    await call.reached
    expect(await revoking).toMatchObject({ type: 'done', key: { recoveryPoint: 'ride_created', fence: 2 } })
    expect(await audit(trial)).toMatchObject([{ detail: { before: { recoveryPoint: 'ride_created' } } }])
    call.go()
    expect(await holder).toMatchObject({ type: 'in_flight', fencedOff: true })
    await engine.close()
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.rides()).toHaveLength(1)
  })

  test('keeps what was declared of a call, so that it is not made a second time', async () => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    await trial.dieAt('charge_created/call#1:after')
    expect(await operator.revoke(nameOf(trial), because)).toMatchObject({
      type: 'done',
      key: { call: { phase: 'charge_created', known: 'may_have_been_made' } },
    })
    expect(await execute(trial)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    expect(await trial.provider.requests()).toHaveLength(1)
  })

  test('is refused where nobody holds the key', async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('ride_created/commit#1:after')
    await database.expireLeases()
    const before = await trial.row()
    const over = await operator.revoke(nameOf(trial), because)
    expect(over).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('nobody holds it') as string,
    })
    expect(await trial.row()).toEqual(before)
    await execute(trial)
    const finished = await operator.revoke(nameOf(trial), because)
    expect(finished).toMatchObject({ type: 'refused', detail: expect.stringContaining('finished') as string })
    expect(await audit(trial)).toEqual([])
  })
})

describe('answer', () => {
  test("gives the client's retry the operator's response, byte for byte, and runs no phase", async () => {
    const trial = await stuckOnce('executes_then_cuts')
    const body = { error: 'refunded by hand', näme: 'ü' }
    const response = { status: 409, headers: { 'X-Case': '4711' }, body, retentionMs: 60_000 }
    const done = await operator.answer(nameOf(trial), because, response)
    expect(done).toMatchObject({
      type: 'done',
      key: { status: 'finished', recoveryPoint: 'finished', stuckReason: null, fence: 2, call: null },
    })
    const replayed = await execute(trial)
    expect(replayed).toMatchObject({
      type: 'replayed',
      response: {
        status: 409,
        headers: { 'content-type': 'application/json; charset=utf-8', 'x-case': '4711' },
        body: Buffer.from(JSON.stringify(body)),
      },
    })
    expect(await trial.provider.requests()).toHaveLength(1)
    const [row] = await database.rows(
      `SELECT trail->-1->>'p' AS point, trail->-1->>'f' AS fence,
              round(extract(epoch FROM expires_at - updated_at))::int AS kept
         FROM pawl.idempotency_keys WHERE scope = $1`,
      [trial.scope],
    )
    expect(row).toEqual({ point: 'finished', fence: '2', kept: 60 })
    expect(await audit(trial)).toMatchObject([
      {
        ...because,
        action: 'answer',
        detail: {
          before: { stuckReason: 'unknown_outcome' },
          given: { status: 409, body: digestOf(body), retentionMs: 60_000 },
        },
      },
    ])
  })

  test('stores no body where none is given, and keeps the response for as long as effects', async () => {
    const trial = await stuckByAge()
    await operator.answer(nameOf(trial), because, { status: 204 })
    expect(await execute(trial)).toMatchObject({
      type: 'replayed',
      response: { status: 204, headers: {}, body: Buffer.alloc(0) },
    })
    const [row] = await database.rows(
      `SELECT round(extract(epoch FROM expires_at - updated_at) / 86400)::int AS days
         FROM pawl.idempotency_keys WHERE scope = $1`,
      [trial.scope],
    )
    expect(row).toEqual({ days: 400 })
  })

  test('is what a retry still gets a month later, because no effect of a call in doubt is on record', async () => {
    const trial = await stuckOnce('executes_then_cuts')
    await operator.answer(nameOf(trial), because, { status: 200, body: { done: true } })
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = expires_at - interval '30 days' WHERE scope = $1`,
      [trial.scope],
    )
    await operator.reap(because)
    expect(await execute(trial)).toMatchObject({ type: 'replayed', response: { status: 200 } })
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('is refused unless the key is stuck', async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('ride_created/commit#1:after')
    const running = await operator.answer(nameOf(trial), because, { status: 410 })
    expect(running).toMatchObject({ type: 'refused', detail: expect.stringContaining('running') as string })
    await database.expireLeases()
    await execute(trial)
    const finished = await operator.answer(nameOf(trial), because, { status: 410 })
    expect(finished).toMatchObject({ type: 'refused', detail: expect.stringContaining('finished') as string })
    expect(await audit(trial)).toEqual([])
  })
})

const idOf = async (trial: RideTrial) => ({ keyId: (await trial.row())?.id ?? '' })

describe('by the id of the key', () => {
  test('unstick settles the call, and records the intervention under the names of the key', async () => {
    const trial = await stuckOnce('executes_then_cuts')
    const bystander = await stuckOnce('executes_then_cuts')
    const [charge] = await trial.provider.ledger()
    const result = { id: charge?.id ?? '', amount: 1_200 }
    const done = await operator.unstick(await idOf(trial), because, { type: 'executed', result })
    expect(done).toMatchObject({ type: 'done', key: { ...nameOf(trial), status: 'running' } })
    expect(await execute(trial)).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await trial.provider.requests()).toHaveLength(1)
    expect(await audit(trial)).toMatchObject([{ ...because, action: 'unstick' }])
    expect(await operator.show(nameOf(bystander))).toMatchObject({
      key: { status: 'stuck' },
      interventions: [],
    })
  })

  test('answer gives the client the response', async () => {
    const trial = await stuckOnce('never_arrives')
    const done = await operator.answer(await idOf(trial), because, { status: 410 })
    expect(done).toMatchObject({ type: 'done', key: nameOf(trial) })
    expect(await execute(trial)).toMatchObject({ type: 'replayed', response: { status: 410 } })
  })

  test('revoke is refused where nobody holds the key, and returns the key', async () => {
    const trial = await stuckOnce('never_arrives')
    expect(await operator.revoke(await idOf(trial), because)).toMatchObject({
      type: 'refused',
      key: nameOf(trial),
    })
  })

  test('a key of the same names that was reserved after the row was deleted is not touched', async () => {
    const trial = await stuckOnce('never_arrives')
    const before = await idOf(trial)
    await database.rows('DELETE FROM pawl.idempotency_keys WHERE id = $1', [before.keyId])
    await trial.provider.willMeet('never_arrives')
    expect(await execute(trial)).toMatchObject({ type: 'stuck' })
    expect(await operator.answer(before, because, { status: 410 })).toEqual({ type: 'not_found', by: null })
    expect(await operator.show(nameOf(trial))).toMatchObject({ key: { status: 'stuck' } })
  })
})

test('a key that does not exist is not found, and nothing is recorded', async () => {
  const name = { scope: 'nobody', key: 'none' }
  const before = await database.rows('SELECT count(*) FROM pawl.interventions')
  expect(await operator.unstick(name, because)).toEqual({ type: 'not_found', by: null })
  expect(await operator.revoke(name, because)).toEqual({ type: 'not_found', by: null })
  expect(await operator.answer(name, because, { status: 410 })).toEqual({ type: 'not_found', by: null })
  expect(await database.rows('SELECT count(*) FROM pawl.interventions')).toEqual(before)
})
