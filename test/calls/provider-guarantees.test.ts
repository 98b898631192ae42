import { randomUUID } from 'node:crypto'
import { absent, type Engine, found, type Pipeline, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { Provider } from '../support/provider.js'
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

type Charging = Pipeline<Database, number>

/** On an engine of its own each time, as after a crash or a deploy. */
function execute(target: Charging, namespace = 'pawl') {
  const options = { pool: database.pool(), pipelines: [target], schema: database.schema, namespace }
  const engine = createEngine(options)
  engines.push(engine)
  return engine.execute(target, request)
}

const die = (target: Charging, at: string) =>
  dieAt(database, { pipelines: [target] }, at, async (engine) => engine.execute(target, request))

const sentKeys = async () => (await provider.requests()).map((sent) => sent.key)

/** As if everything had happened this much earlier, by the database's clock. */
async function age(minutes: number): Promise<void> {
  await database.rows(
    `UPDATE pawl.idempotency_keys SET created_at = created_at - $1 * interval '1 minute',
            intent = CASE WHEN intent->>'deadlineMs' IS NULL THEN intent ELSE
              jsonb_set(intent::jsonb, '{deadlineMs}', to_jsonb((intent->>'deadlineMs')::float8 - $1 * 60000))::json END`,
    [minutes],
  )
}

async function ask({ idempotencyKey }: { readonly idempotencyKey: string }) {
  const charge = await provider.find(idempotencyKey)
  return charge === null ? absent() : found(charge)
}

const charge = ({ input, idempotencyKey }: { readonly input: number; readonly idempotencyKey: string }) =>
  provider.charge(input, { idempotencyKey })

const twoEffects = () =>
  pipeline<number>({ name: 'two', version: 1 })
    .foreign('first', { call: charge })
    .foreign('second', { call: charge })
    .finish(() => respond(201))

describe('keyed', () => {
  // Shows I2, I8.
  test('the provider key is the same on every attempt, across crashes and engines, and distinct per effect', async () => {
    const target = twoEffects()
    await die(target, 'first/call#1:after')
    await die(target, 'first/commit#1:before')
    await die(target, 'second/call#1:after')
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    const [one, , , two] = await sentKeys()
    // The third attempt finished 'first', and died in 'second'.
    expect(await sentKeys()).toEqual([one, one, one, two, two])
    expect(two).not.toBe(one)
    expect(await provider.ledger()).toHaveLength(2)
    const effects = await database.rows('SELECT phase, provider_key FROM pawl.effects ORDER BY phase')
    expect(effects).toEqual([
      { phase: 'first', provider_key: one },
      { phase: 'second', provider_key: two },
    ])
  })

  test('two namespaces never share a provider key', async () => {
    const target = twoEffects()
    await execute(target)
    await database.rows('DELETE FROM pawl.idempotency_keys; DELETE FROM pawl.effects')
    await execute(target, 'another')
    expect(new Set(await sentKeys()).size).toBe(4)
  })

  test('the same request gets the same provider key even after its row was deleted, and has no second effect', async () => {
    const target = twoEffects()
    await execute(target)
    await database.rows('DELETE FROM pawl.idempotency_keys')
    await execute(target)
    expect(new Set(await sentKeys()).size).toBe(2)
    expect(await provider.ledger()).toHaveLength(2)
  })

  // Shows I2.
  test('past the window the provider may have forgotten the key, so it is not called again, and the key is stuck', async () => {
    const target = pipeline<number>({ name: 'windowed', version: 1 })
      .foreign('charged', { call: charge, windowMs: 60_000 })
      .finish(() => respond(201))
    await die(target, 'charged/call#1:after')
    await age(2)
    expect(await execute(target)).toMatchObject({ type: 'stuck', reason: 'window_passed' })
    expect(await provider.requests()).toHaveLength(1)
  })

  test('a key that is stuck past the window still shows the error of its last attempt', async () => {
    await provider.willMeet('refuse_500')
    const target = pipeline<number>({ name: 'windowed', version: 1 })
      .foreign('charged', { call: charge, windowMs: 60_000 })
      .finish(() => respond(201))
    expect(await execute(target)).toMatchObject({ type: 'retry_later' })
    const [row] = await database.rows<{ last_error: string }>('SELECT last_error FROM pawl.idempotency_keys')
    expect(row?.last_error).toContain('provider answered 500')
    await age(2)
    const stuck = { type: 'stuck', reason: 'window_passed', lastError: row?.last_error }
    expect(await execute(target)).toMatchObject(stuck)
  })

  test.each([
    { at: 'charged/call#1:after', calls: 1 },
    { at: 'charged/call#1:before', calls: 1 },
  ])('past the window, a request with reconcile that died at $at is charged once', async ({ at, calls }) => {
    const target = pipeline<number>({ name: 'asking', version: 1 })
      .foreign('charged', {
        call: charge,
        windowMs: 60_000,
        reconcile: ask,
        settle: ({ result }) => ({ chargeId: result.id }),
      })
      .finish(({ state }) => respond(201, state))
    await die(target, at)
    await age(2)
    const outcome = await execute(target)
    if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
    const [entry] = await provider.ledger()
    expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: entry?.id })
    expect(await provider.requests()).toHaveLength(calls)
  })
})

const queryable = () =>
  pipeline<number>({ name: 'queryable', version: 1 })
    .foreign('charged', {
      guarantee: 'queryable',
      call: charge,
      reconcile: ask,
      callTimeoutMs: 30_000,
      quietForMs: 90_000,
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(201, state))

describe('queryable', () => {
  // Shows I2.
  test('a call whose result was lost is found at the provider and settled, without a second call', async () => {
    const target = queryable()
    await die(target, 'charged/call#1:after')
    const outcome = await execute(target)
    if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
    const [entry] = await provider.ledger()
    expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: entry?.id })
    expect(await provider.requests()).toHaveLength(1)
    expect(await database.rows('SELECT phase FROM pawl.effects')).toHaveLength(1)
  })

  test('"absent" counts only after the deadline and the quiet time: until then the outcome is pending, then it calls', async () => {
    const target = queryable()
    await die(target, 'charged/call#1:before')
    const pending = await execute(target)
    if (pending.type !== 'retry_later') throw new Error(`unexpected ${pending.type}`)
    expect(pending).toMatchObject({ reason: 'outcome_pending', recoveryPoint: 'started' })
    expect(pending.retryAfterMs).toBeGreaterThan(60_000)
    expect(pending.retryAfterMs).toBeLessThanOrEqual(120_000)
    await age(1)
    expect(await execute(target)).toMatchObject({ reason: 'outcome_pending' })
    expect(await provider.requests()).toEqual([])
    await age(1)
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(1)
  })

  test.each([
    { how: 'throws', answer: () => Promise.reject(new Error('asked in vain')), code: undefined },
    { how: 'returns neither found nor absent', answer: () => 'maybe' as never, code: 'PAWL_INVALID_RESULT' },
  ])('a reconcile that $how leaves the call as unknown as it was', async ({ answer, code }) => {
    const answers: (() => never | Promise<never>)[] = [answer]
    const target = pipeline<number>({ name: 'queryable', version: 1 })
      .foreign('charged', {
        guarantee: 'queryable',
        call: charge,
        reconcile: async (context) => (await answers.shift()?.()) ?? ask(context),
      })
      .finish(() => respond(201))
    await die(target, 'charged/call#1:after')
    await age(3)
    const failed = await execute(target)
    expect(failed).toMatchObject({ reason: 'unknown_error', error: code === undefined ? {} : { code } })
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(1)
  })

  test('a call that is made after "absent" is declared again, so that it is asked about if it is lost too', async () => {
    const target = queryable()
    await die(target, 'charged/call#1:before')
    await age(3)
    await die(target, 'charged/call#1:after')
    expect(await provider.requests()).toHaveLength(1)
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(1)
  })

  test('a request that died before its call was declared simply makes the call', async () => {
    const target = queryable()
    await die(target, 'charged/declare_call#1:before')
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(1)
  })
})

const once = () =>
  pipeline<number>({ name: 'once', version: 1 })
    .foreign('charged', { guarantee: 'at_most_once', call: charge })
    .finish(() => respond(201))

describe('at_most_once', () => {
  test.each(['charged/call#1:before', 'charged/call#1:after', 'charged/commit#1:before'])(
    'a request that died at %s is stuck with an unknown outcome, and never calls again',
    async (at) => {
      const target = once()
      await die(target, at)
      const calls = (await provider.requests()).length
      const stuck = { type: 'stuck', reason: 'unknown_outcome', recoveryPoint: 'started' }
      expect(await execute(target)).toMatchObject(stuck)
      expect(await execute(target)).toMatchObject(stuck)
      expect(await provider.requests()).toHaveLength(calls)
    },
  )

  test('a request that died before its call was declared makes the call once', async () => {
    const target = once()
    await die(target, 'charged/declare_call#1:before')
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(1)
  })

  test.each(['never_arrives', 'executes_then_cuts', 'refuse_500'] as const)(
    'a call that meets %s makes its key stuck at once',
    async (fault) => {
      await provider.willMeet(fault)
      const target = once()
      expect(await execute(target)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
      expect(await provider.requests()).toHaveLength(1)
    },
  )
})

describe('notExecuted', () => {
  test('allows a second at_most_once call, because the first one was not executed', async () => {
    await provider.willMeet('never_arrives')
    const target = pipeline<number>({ name: 'never', version: 1 })
      .foreign('charged', {
        guarantee: 'at_most_once',
        call: charge,
        onError: ({ error }) => retryLater(error, { notExecuted: true }),
      })
      .finish(() => respond(201))
    expect(await execute(target)).toMatchObject({ type: 'retry_later', reason: 'asked_by_phase' })
    expect(await execute(target)).toMatchObject({ type: 'completed' })
    expect(await provider.ledger()).toHaveLength(1)
  })

  test.each([
    { notExecuted: true, second: 'completed' },
    { notExecuted: false, second: 'retry_later' },
  ])(
    '$notExecuted: at a provider that repeats its stored 500 for the same key, the second attempt is $second',
    async (how) => {
      await provider.willMeet('stored_500')
      const target = pipeline<number>({ name: 'stored', version: 1 })
        .foreign('charged', {
          call: charge,
          onError: ({ error }) => retryLater(error, { notExecuted: how.notExecuted }),
        })
        .foreign('next', { call: charge })
        .finish(() => respond(201))
      expect(await execute(target)).toMatchObject({ type: 'retry_later', reason: 'asked_by_phase' })
      expect(await execute(target)).toMatchObject({ type: how.second })
      const [first, second] = await sentKeys()
      expect(first === second).toBe(!how.notExecuted)
      if (!how.notExecuted) return
      const effects = await database.rows('SELECT phase, provider_key FROM pawl.effects ORDER BY phase')
      expect(effects).toEqual([
        { phase: 'charged', provider_key: second },
        { phase: 'next', provider_key: (await sentKeys())[2] },
      ])
      expect(await provider.ledger()).toHaveLength(2)
    },
  )
})
