import { randomUUID } from 'node:crypto'
import {
  absent,
  type Engine,
  type EngineOptions,
  type Pipeline,
  respond,
  retryLater,
  subscribe,
} from '@pawl/core'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { Provider, ProviderError } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider
let request: { readonly scope: string; readonly key: string; readonly input: number }
let engines: Engine<Database>[]

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  request = { scope: 's', key: randomUUID(), input: 25 }
  engines = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

function engineOf(
  target: Pipeline<Database, number>,
  caps: EngineOptions<Database>['caps'] = {},
  strict = true,
) {
  const { schema } = database
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema, caps, strict })
  engines.push(engine)
  return { engine, execute: () => engine.execute(target, request) }
}

const charge = ({
  input,
  idempotencyKey,
  signal,
}: {
  input: number
  idempotencyKey: string
  signal: AbortSignal
}) => provider.charge(input, { idempotencyKey, signal })
const audit = () => database.rows('SELECT what FROM audit')
const key = async () => (await database.rows('SELECT * FROM pawl.idempotency_keys'))[0]

describe('a call that fails', () => {
  test.each([
    { fault: 'refuse_500', reason: 'transient_error', executed: 0 },
    { fault: 'too_many', reason: 'transient_error', executed: 0 },
    { fault: 'never_arrives', reason: 'transient_error', executed: 0 },
    { fault: 'executes_then_cuts', reason: 'transient_error', executed: 1 },
    { fault: 'executes_then_silent', reason: 'transient_error', executed: 1 },
    { fault: 'silent', reason: 'transient_error', executed: 0 },
    { fault: 'broken_body', reason: 'unknown_error', executed: 1 },
  ] as const)(
    'with $fault gives its key back at once, and is made again under the same provider key',
    async (how) => {
      await provider.willMeet(how.fault)
      const target = pipeline<number>({ name: 'failing', version: 1, callTimeoutMs: 1_500 })
        .foreign('charged', { call: charge })
        .finish(() => respond(201))
      const { execute } = engineOf(target)
      expect(await execute()).toMatchObject({
        type: 'retry_later',
        reason: how.reason,
        recoveryPoint: 'started',
      })
      expect(await provider.ledger()).toHaveLength(how.executed)
      expect(await key()).toMatchObject({ lease_until: null, response_status: null })
      expect(await execute()).toMatchObject({ type: 'completed' })
      expect(await provider.ledger()).toHaveLength(1)
      const [first, second, ...more] = await provider.requests()
      expect(second?.key).toBe(first?.key)
      expect(more).toEqual([])
    },
  )

  test('for good is answered by onError, whose response and rows are stored together', async () => {
    await provider.willMeet('declined')
    const target = pipeline<number>({ name: 'declining', version: 1 })
      .foreign('charged', {
        call: charge,
        onError: async ({ error, tx, stage }) => {
          if (!(error instanceof ProviderError) || error.status !== 402) return retryLater(error)
          await tx.insertInto('audit').values({ what: error.code }).execute()
          await stage('tell_rider', { why: error.code })
          return respond(402, { code: error.code })
        },
      })
      .finish(() => respond(201))
    const { execute } = engineOf(target)
    const first = await execute()
    const again = await execute()
    if (first.type !== 'completed' || again.type !== 'replayed') throw new Error('not stored')
    expect(first.response.status).toBe(402)
    expect(again.response).toEqual(first.response)
    expect(await audit()).toEqual([{ what: 'card_declined' }])
    expect(await database.rows('SELECT name FROM pawl.staged_jobs')).toEqual([{ name: 'tell_rider' }])
    expect(await database.rows('SELECT * FROM pawl.effects')).toEqual([])
    expect(await provider.requests()).toHaveLength(1)
  })

  test.each(['refuse_500', 'too_many', 'never_arrives', 'executes_then_cuts', 'broken_body'] as const)(
    'with %s leaves open what happened, so that a final response of onError is refused and never stored',
    async (fault) => {
      await provider.willMeet(fault)
      const target = pipeline<number>({ name: 'ambiguous', version: 1 })
        .foreign('charged', {
          call: charge,
          onError: async ({ tx }) => {
            await tx.insertInto('audit').values({ what: 'gave up' }).execute()
            return respond(400, { code: 'failed' })
          },
        })
        .finish(() => respond(201))
      const { execute } = engineOf(target)
      expect(await execute()).toMatchObject({
        type: 'retry_later',
        response: null,
        error: { code: 'PAWL_AMBIGUOUS_RESPONSE', message: expect.stringContaining("'charged'") as string },
      })
      expect(await audit()).toEqual([])
      expect(await key()).toMatchObject({ status: 'running', response_status: null })
      expect(await execute()).toMatchObject({ type: 'completed', response: { status: 201 } })
      expect(await provider.ledger()).toHaveLength(1)
    },
  )

  // Shows I7.
  test('sends a transient response of onError without storing it, and rolls its rows back', async () => {
    await provider.willMeet('refuse_500')
    const target = pipeline<number>({ name: 'passing_on', version: 1 })
      .foreign('charged', {
        call: charge,
        onError: async ({ tx }) => {
          await tx.insertInto('audit').values({ what: 'failed' }).execute()
          return respond(503, { code: 'provider_down' })
        },
      })
      .finish(() => respond(201))
    const { execute } = engineOf(target)
    expect(await execute()).toMatchObject({ reason: 'asked_by_phase', response: { status: 503 } })
    expect(await audit()).toEqual([])
    expect(await execute()).toMatchObject({ type: 'completed' })
  })

  test('has its onError run once more if that met a conflict, and is not repeated', async () => {
    await provider.willMeet('declined')
    let asked = 0
    const target = pipeline<number>({ name: 'conflicting', version: 1 })
      .foreign('charged', {
        call: charge,
        onError: async ({ tx }) => {
          await tx.insertInto('audit').values({ what: 'declined' }).execute()
          if (++asked === 1)
            await sql`DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`.execute(tx)
          return respond(402)
        },
      })
      .finish(() => respond(201))
    expect(await engineOf(target).execute()).toMatchObject({ type: 'completed', response: { status: 402 } })
    expect(asked).toBe(2)
    expect(await audit()).toEqual([{ what: 'declined' }])
    expect(await provider.requests()).toHaveLength(1)
  })

  test('with an onError that throws keeps the error of onError, and may be made again', async () => {
    await provider.willMeet('declined')
    const target = pipeline<number>({ name: 'clumsy', version: 1 })
      .foreign('charged', {
        call: charge,
        onError: () => {
          throw new Error('clumsy')
        },
      })
      .finish(() => respond(201))
    const { execute } = engineOf(target)
    expect(await execute()).toMatchObject({ reason: 'unknown_error', error: { message: 'clumsy' } })
    expect(await key()).toMatchObject({ status: 'running', last_error: 'Error: clumsy' })
  })
})

function failingSettle(result: () => unknown) {
  const seen: unknown[] = []
  let calls = 0
  const target = pipeline<number>({ name: 'saving', version: 1 })
    .foreign('charged', {
      call: () => {
        calls++
        return result() as { id: string }
      },
      settle: ({ result: given }) => {
        seen.push(given)
        if (seen.length === 1) throw new Error('settle is broken')
        return { charge: given }
      },
      reference: ({ id }) => id,
    })
    .finish(({ state }) => respond(201, state))
  return { target, seen, calls: () => calls }
}

test('a final response of settle is stored together with the effect of its call', async () => {
  const target = pipeline<number>({ name: 'ending', version: 1 })
    .foreign('charged', {
      call: charge,
      reference: ({ id }) => id,
      settle: async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'sold out' }).execute()
        return respond(409, { code: 'sold_out' })
      },
    })
    .finish(() => respond(201))
  expect(await engineOf(target).execute()).toMatchObject({ type: 'completed', response: { status: 409 } })
  const [entry] = await provider.ledger()
  expect(await database.rows('SELECT reference FROM pawl.effects')).toEqual([{ reference: entry?.id }])
  expect(await audit()).toEqual([{ what: 'sold out' }])
  expect(await engineOf(target).execute()).toMatchObject({ type: 'replayed' })
})

describe('a result that settle could not commit', () => {
  test('is saved, and another engine goes straight to settle with the same value', async () => {
    const value = { id: 'ch_1', odd: '\u0000 \ud800 ü', list: [1.5, null, { deep: true }] }
    const { target, seen, calls } = failingSettle(() => value)
    expect(await engineOf(target).execute()).toMatchObject({
      reason: 'unknown_error',
      recoveryPoint: 'started',
    })
    expect(await engineOf(target).engine.inspect('s', request.key)).toMatchObject({
      call: { phase: 'charged', known: 'returned' },
      lease: null,
    })
    expect(await engineOf(target).execute()).toMatchObject({ type: 'completed' })
    expect(calls()).toBe(1)
    expect(seen).toEqual([value, value])
    expect(await database.rows('SELECT reference FROM pawl.effects')).toEqual([{ reference: 'ch_1' }])
  })

  test('is settled from its stored form each time, whatever settle does to it', async () => {
    const { target, seen } = failingSettle(() => ({ id: 'ch_2' }))
    await engineOf(target).execute()
    ;(seen[0] as { id: string }).id = 'changed'
    expect(await engineOf(target).execute()).toMatchObject({ type: 'completed' })
    expect(seen[1]).toEqual({ id: 'ch_2' })
  })

  test.each([
    { answer: () => respond(503, { code: 'full' }), reason: 'asked_by_phase' },
    { answer: () => retryLater(new Error('later'), { notExecuted: true }), reason: 'asked_by_phase' },
  ])('because it asked for a retry is saved too', async ({ answer, reason }) => {
    const answers = [answer(), undefined]
    let calls = 0
    const target = pipeline<number>({ name: 'asking', version: 1 })
      .foreign('charged', { call: () => ({ id: `ch_${++calls}` }), settle: () => answers.shift() })
      .finish(() => respond(201))
    expect(await engineOf(target).execute()).toMatchObject({ reason })
    expect(await key()).toMatchObject({ intent: { kind: 'called' }, effect_epoch: 0 })
    expect(await engineOf(target).execute()).toMatchObject({ type: 'completed' })
    expect(calls).toBe(1)
  })

  test('is saved even if it is far larger than the state may be', async () => {
    const value = { id: 'ch_1', receipt: 'x'.repeat(100 * 1024) }
    const { target, seen, calls } = failingSettle(() => value)
    expect(await engineOf(target).execute()).toMatchObject({ reason: 'unknown_error' })
    expect(await engineOf(target).execute()).toMatchObject({ error: { code: 'PAWL_TOO_LARGE' } })
    // It is too large for the state, but settle got what the one call had returned.
    expect(seen).toEqual([value, value])
    expect(calls()).toBe(1)
  })

  test('and is over its cap fails in strict mode before settle, and is saved, so that a higher cap settles it', async () => {
    const { target, seen, calls } = failingSettle(() => ({ id: 'ü'.repeat(300) }))
    const refused = {
      type: 'retry_later',
      reason: 'unknown_error',
      error: {
        code: 'PAWL_TOO_LARGE',
        message:
          "The result of call in phase 'charged' is 609 bytes; the cap is 400. Have call return only what settle needs, " +
          'such as an id, or raise caps.resultBytes of createEngine.',
      },
    }
    expect(await engineOf(target, { resultBytes: 400 }).execute()).toMatchObject(refused)
    expect(await engineOf(target, { resultBytes: 400 }).execute()).toMatchObject(refused)
    expect(seen).toEqual([])
    await engineOf(target, { resultBytes: 10_000 }).execute()
    expect(await engineOf(target).execute()).toMatchObject({ type: 'completed' })
    expect(calls()).toBe(1)
  })

  test('and is over its cap is settled in production with a warning, and saved if settle fails', async () => {
    const { target, seen, calls } = failingSettle(() => ({ id: 'ü'.repeat(300) }))
    const warnings: string[] = []
    onTestFinished(subscribe('pawl:warning', ({ message }) => void warnings.push(message)))
    const production = () => engineOf(target, { resultBytes: 400 }, false)
    expect(await production().execute()).toMatchObject({ error: { message: 'settle is broken' } })
    expect(await production().execute()).toMatchObject({ type: 'completed' })
    expect(seen).toHaveLength(2)
    expect(calls()).toBe(1)
    const warning = expect.stringContaining("The result of call in phase 'charged' is 609 bytes") as string
    expect(warnings).toEqual([warning, warning])
  })

  test.each([
    { guarantee: 'at_most_once', next: { type: 'stuck', reason: 'unknown_outcome' } },
    { guarantee: 'queryable', next: { type: 'retry_later', reason: 'outcome_pending' } },
  ] as const)(
    'and cannot be saved, because it is not JSON, is not called again under $guarantee',
    async (how) => {
      let calls = 0
      const reconcile = how.guarantee === 'queryable' ? { reconcile: () => absent() } : {}
      const target = pipeline<number>({ name: 'not_json', version: 1 })
        .foreign('charged', {
          guarantee: how.guarantee as 'queryable',
          ...(reconcile as { reconcile: () => ReturnType<typeof absent> }),
          call: () => {
            calls++
            return { id: 1n } as unknown as { id: string }
          },
          settle: () => {
            throw new Error('settle is broken')
          },
        })
        .finish(() => respond(201))
      expect(await engineOf(target).execute()).toMatchObject({ reason: 'unknown_error' })
      expect(await engineOf(target).execute()).toMatchObject(how.next)
      expect(calls).toBe(1)
    },
  )
})
