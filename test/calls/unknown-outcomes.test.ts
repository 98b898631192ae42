import { randomUUID } from 'node:crypto'
import {
  createOperator,
  type Engine,
  type Pipeline,
  respond,
  retryLater,
  subscribe,
  type TransactionContext,
} from '@pawl/core'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let request: { readonly scope: string; readonly key: string; readonly input: number }
let engines: Engine<Database>[]

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  request = { scope: 's', key: randomUUID(), input: 25 }
  engines = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

function engineOf(target: Pipeline<Database, number>): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  return engine
}

type Without = (context: TransactionContext<Database, number, object>) => unknown

/** An order that can do without its confirmation. */
function orderWith(call: () => Promise<{ id: string }>, whenUnknown: Without) {
  let calls = 0
  const target = pipeline<number>({ name: 'order', version: 1, callTimeoutMs: 100, maxAttempts: 2 })
    .foreign('confirmed', {
      guarantee: 'at_most_once',
      call: () => {
        calls++
        return call()
      },
      settle: ({ result }) => ({ mail: result.id }),
      reference: ({ id }) => id,
      whenUnknown: whenUnknown as () => { mail: string },
    })
    .finish(({ state }) => respond(201, { mail: state.mail }))
  return { target, calls: () => calls }
}

const perhaps: Without = async ({ tx }) => {
  await tx.insertInto('audit').values({ what: 'perhaps mailed' }).execute()
  return { mail: 'perhaps' }
}
const audit = () => database.rows('SELECT what FROM audit')
const bodyOf = (outcome: Awaited<ReturnType<Engine<Database>['execute']>>) =>
  'response' in outcome && outcome.response !== null
    ? (JSON.parse(outcome.response.body.toString()) as unknown)
    : outcome.type
const trail = async () => (await engineOf(other).inspect('s', request.key))?.trail
const other = pipeline<number>({ name: 'other', version: 1 }).finish(() => respond(200))
const because = { actor: 'ann', reason: 'the customer called' }
const lost = () => Promise.reject(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }))

describe('a call that must not be repeated, and whose outcome is unknown', () => {
  test('lets the phase go on without it after an error, in one transaction, and the trail says so', async () => {
    const { target, calls } = orderWith(lost, perhaps)
    const heard: unknown[] = []
    onTestFinished(subscribe('pawl:outcome_unknown', ({ phase, error }) => void heard.push({ phase, error })))
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'perhaps' })
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'perhaps' })
    expect(calls()).toBe(1)
    expect(await audit()).toEqual([{ what: 'perhaps mailed' }])
    expect(heard).toEqual([
      { phase: 'confirmed', error: expect.objectContaining({ code: 'ECONNRESET' }) as Error },
    ])
    expect(await trail()).toMatchObject([
      { point: 'confirmed', skipped: false, outcomeUnknown: true },
      { point: 'finished', outcomeUnknown: false },
    ])
    expect(await database.rows('SELECT * FROM pawl.effects')).toEqual([])
  })

  // Shows I19.
  test('is not made again for as long as effects are kept: nothing but its key knows of it', async () => {
    const { target, calls } = orderWith(lost, perhaps)
    const engine = engineOf(target)
    await engine.execute(target, request)
    const [row] = await database.rows<{ days: number }>(
      'SELECT extract(epoch FROM expires_at - updated_at)::float / 86400 AS days FROM pawl.idempotency_keys',
    )
    expect(row?.days).toBe(400)
    const of = { scope: 's', key: request.key }
    const operator = createOperator({ pool: database.pool(), schema: database.schema })
    expect(await operator.forget(of, because)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining("whether the call of phase 'confirmed' was executed") as string,
    })
    expect(await operator.erase({ scope: 's', ...because })).toMatchObject({
      complete: false,
      kept: [{ what: 'key', name: request.key, why: 'recent_effect' }],
    })
    expect((await engine.execute(target, request)).type).toBe('replayed')
    expect(calls()).toBe(1)
    expect(await operator.forget(of, because, { effectsUndone: true })).toMatchObject({ type: 'done' })
  })

  test('may be made again after its key has expired where the engine runs such keys again', async () => {
    const { target } = orderWith(lost, perhaps)
    const engine = createEngine({
      pool: database.pool(),
      pipelines: [target],
      schema: database.schema,
      afterExpiry: 'run',
    })
    engines.push(engine)
    await engine.execute(target, request)
    const [row] = await database.rows<{ hours: number }>(
      'SELECT extract(epoch FROM expires_at - updated_at)::float / 3600 AS hours FROM pawl.idempotency_keys',
    )
    expect(row?.hours).toBe(24)
  })

  test.each(['confirmed/call#1:before', 'confirmed/call#1:after', 'confirmed/advance_key#1:before'])(
    'lets the next process go on without it, once, after a crash at %s',
    async (position) => {
      const { target, calls } = orderWith(async () => ({ id: 'm_1' }), perhaps)
      await dieAt(database, { pipelines: [target] }, position, async (engine) =>
        engine.execute(target, request),
      )
      await database.expireLeases()
      expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'perhaps' })
      expect(calls()).toBeLessThanOrEqual(1)
      expect(await audit()).toEqual([{ what: 'perhaps mailed' }])
    },
  )

  test.each(['confirmed/advance_key#1:before', 'confirmed/commit#1:after'])(
    'leaves the rows of the transaction that goes on without it once, after a crash at %s',
    async (position) => {
      const { target, calls } = orderWith(lost, perhaps)
      await dieAt(database, { pipelines: [target] }, position, async (engine) =>
        engine.execute(target, request),
      )
      await database.expireLeases()
      expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'perhaps' })
      expect(await audit()).toEqual([{ what: 'perhaps mailed' }])
      expect(calls()).toBe(1)
    },
  )

  test('may end the request, and rows, response and trail commit together', async () => {
    const { target } = orderWith(lost, () => respond(202, { mail: 'who knows' }))
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'who knows' })
    expect(await trail()).toMatchObject([{ point: 'finished', outcomeUnknown: true }])
  })

  test('may be decided later, and the call is not repeated meanwhile', async () => {
    const answers = [retryLater(), { mail: 'later' }]
    const { target, calls } = orderWith(lost, () => answers.shift())
    expect(await engineOf(target).execute(target, request)).toMatchObject({ reason: 'asked_by_phase' })
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'later' })
    expect(calls()).toBe(1)
  })

  test('is stuck at the cap if going on without it fails each time, and goes on once that is fixed', async () => {
    let isBroken = true
    const { target, calls } = orderWith(lost, () => {
      if (isBroken) throw new Error('broken')
      return { mail: 'mended' }
    })
    expect(await engineOf(target).execute(target, request)).toMatchObject({ reason: 'unknown_error' })
    expect(await engineOf(target).execute(target, request)).toMatchObject({
      type: 'stuck',
      reason: 'attempts_exhausted',
    })
    isBroken = false
    const operator = createOperator({ pool: database.pool(), schema: database.schema })
    await operator.unstick({ scope: 's', key: request.key }, { actor: 'anna', reason: 'mended' })
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'mended' })
    expect(calls()).toBe(1)
  })

  test('does not keep the request from being answered at its time-out, and a later result is recorded as an effect', async () => {
    const letGo = gate()
    const { target, calls } = orderWith(async () => {
      await letGo.opened
      return { id: 'm_late' }
    }, perhaps)
    const engine = engineOf(target)
    expect(bodyOf(await engine.execute(target, request))).toEqual({ mail: 'perhaps' })
    expect(await database.rows('SELECT * FROM pawl.effects')).toEqual([])
    letGo.open()
    await engine.close()
    expect(await database.rows('SELECT phase, reference FROM pawl.effects')).toEqual([
      { phase: 'confirmed', reference: 'm_late' },
    ])
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'perhaps' })
    expect(calls()).toBe(1)
  })

  test('may return while a later phase is stuck: its result becomes an effect, and is not settled by that phase', async () => {
    const letGo = gate()
    const target = pipeline<number>({ name: 'order', version: 1, callTimeoutMs: 100 })
      .foreign('confirmed', {
        guarantee: 'at_most_once',
        call: async () => {
          await letGo.opened
          return { id: 'm_late' }
        },
        reference: ({ id }) => id,
        whenUnknown: () => ({}),
      })
      .finish(async ({ tx }) => {
        await sql`/* in disguise */ COMMIT`.execute(tx)
        return respond(201)
      })
    const engine = engineOf(target)
    expect(await engine.execute(target, request)).toMatchObject({
      type: 'stuck',
      reason: 'transaction_ended',
    })
    letGo.open()
    await engine.close()
    expect(await database.rows('SELECT reference FROM pawl.effects')).toEqual([{ reference: 'm_late' }])
    expect(await database.rows('SELECT intent FROM pawl.idempotency_keys')).toEqual([{ intent: null }])
  })

  test('may return later, and its result is recorded under the provider key that it was called with', async () => {
    const letGo = gate()
    const sent: string[] = []
    const target = pipeline<number>({ name: 'order', version: 1, callTimeoutMs: 100 })
      .foreign('confirmed', {
        guarantee: 'at_most_once',
        call: async ({ idempotencyKey }) => {
          sent.push(idempotencyKey)
          if (sent.length === 1) throw new Error('refused before it was sent')
          await letGo.opened
          return { id: 'm_late' }
        },
        // To the provider, the next call is a different one.
        onError: ({ error }) => retryLater(error, { notExecuted: true }),
        whenUnknown: () => ({}),
      })
      .finish(() => respond(201))
    const engine = engineOf(target)
    expect(await engine.execute(target, request)).toMatchObject({ type: 'retry_later' })
    expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
    letGo.open()
    await engine.close()
    expect(new Set(sent).size).toBe(2)
    expect(await database.rows('SELECT provider_key FROM pawl.effects')).toEqual([{ provider_key: sent[1] }])
  })

  test('is not decided by whenUnknown if its result is known, or if onError has answered', async () => {
    const { target } = orderWith(async () => ({ id: 'm_1' }), perhaps)
    expect(bodyOf(await engineOf(target).execute(target, request))).toEqual({ mail: 'm_1' })
    expect(await trail()).toMatchObject([{ outcomeUnknown: false }, { outcomeUnknown: false }])
    expect(await audit()).toEqual([])
  })
})
