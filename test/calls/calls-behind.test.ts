import { randomUUID } from 'node:crypto'
import { createOperator, type Engine, type Operator, type Pipeline, respond, subscribe } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const BECAUSE = { actor: 'anna', reason: 'asked the provider' }
const NOT_EXECUTED = { type: 'not_executed' } as const
const EXECUTED = { type: 'executed', result: { id: 'ch_said' } } as const
const CALL_TIMEOUT_MS = 50

let database: TestDatabase
let request: { readonly scope: string; readonly key: string; readonly input: null }
let engines: Engine<Database>[]
let operator: Operator
let lost: boolean

beforeEach(async () => {
  database = await TestDatabase.create()
  request = { scope: 's', key: randomUUID(), input: null }
  engines = []
  operator = createOperator({ pool: database.pool(), schema: database.schema })
  lost = false
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

const name = () => ({ scope: 's', key: request.key })

function engineOf(target: Pipeline<Database, null>): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  return engine
}

/** The database loses everything that the key has committed, once, as in a failover to a replica that was behind. */
async function loseCommits(): Promise<void> {
  if (lost) return
  lost = true
  await database.rows(
    `UPDATE pawl.idempotency_keys SET recovery_point = 'started', state = '{}', trail = '[]', intent = NULL`,
  )
}

const row = async () => (await database.rows('SELECT * FROM pawl.idempotency_keys'))[0]
const effects = () => database.rows('SELECT phase, reference FROM pawl.effects ORDER BY created_at')

describe('a result that comes when its key has gone back', () => {
  test('does not replace what is known of another call, and is reported', async () => {
    const letGo = gate()
    const target = pipeline<null>({ name: 'two', version: 1, callTimeoutMs: CALL_TIMEOUT_MS })
      .foreign('charged', { guarantee: 'at_most_once', call: () => ({ id: 'ch_1' }) })
      .foreign('mailed', {
        call: async () => {
          await loseCommits()
          await letGo.opened
          return { id: 'mail_1' }
        },
        reference: ({ id }) => id,
      })
      .finish(() => respond(201))
    const warnings: string[] = []
    onTestFinished(subscribe('pawl:warning', ({ message }) => void warnings.push(message)))
    const engine = engineOf(target)
    expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    letGo.open()
    await engine.close()
    expect(await row()).toMatchObject({ status: 'stuck', intent: { kind: 'calling', phase: 'charged' } })
    expect(await effects()).toContainEqual({ phase: 'mailed', reference: 'mail_1' })
    expect(warnings).toContainEqual(expect.stringContaining("the call of phase 'mailed' of key"))
  })

  test('from a call that whenUnknown went on without is kept for a person, settled once, and not called for again', async () => {
    const letGo = gate()
    let calls = 0
    const target = pipeline<null>({ name: 'unknown', version: 1, callTimeoutMs: CALL_TIMEOUT_MS })
      .local('noted', () => ({}))
      .foreign('charged', {
        guarantee: 'at_most_once',
        call: async () => {
          calls++
          await letGo.opened
          return { id: 'ch_late' }
        },
        settle: ({ result }) => ({ chargeId: result.id }),
        whenUnknown: () => ({ chargeId: 'perhaps' }),
        reference: ({ id }) => id,
      })
      .local('after', loseCommits)
      .finish(({ state }) => respond(201, state))
    const engine = engineOf(target)
    expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    letGo.open()
    await engine.close()
    expect(await row()).toMatchObject({ intent: { kind: 'called', result: { id: 'ch_late' }, late: true } })
    expect(await operator.unstick(name(), BECAUSE, NOT_EXECUTED)).toMatchObject({ type: 'refused' })
    expect(await operator.unstick(name(), BECAUSE)).toMatchObject({ type: 'done' })
    const outcome = await engineOf(target).execute(target, request)
    if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
    expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: 'ch_late' })
    expect(calls).toBe(1)
    expect(await effects()).toEqual([{ phase: 'charged', reference: 'ch_late' }])
  })
})

function twoCalls() {
  const sent: string[] = []
  let charges = 0
  const target = pipeline<null>({ name: 'two', version: 1 })
    .foreign('mailed', {
      call: ({ idempotencyKey }) => {
        sent.push(idempotencyKey)
        return { id: 'mail_1' }
      },
    })
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: () => ({ id: `ch_${++charges}` }),
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .local('after', loseCommits)
    .finish(({ state }) => respond(201, state))
  return { target, sent, charges: () => charges }
}

describe('a key that went back behind two calls', () => {
  test('goes on once a person says that the second call was not made, and repeats the first under its key', async () => {
    const { target, sent, charges } = twoCalls()
    const engine = engineOf(target)
    expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    expect(await operator.unstick(name(), BECAUSE, NOT_EXECUTED)).toMatchObject({ type: 'done' })
    expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
    expect(sent).toEqual([sent[0], sent[0]])
    expect(charges()).toBe(2)
  })

  test('says that only answer is left once a person says that the second call was made', async () => {
    const { target, charges } = twoCalls()
    const engine = engineOf(target)
    await engine.execute(target, request)
    expect(await operator.unstick(name(), BECAUSE, EXECUTED)).toMatchObject({ type: 'done' })
    expect(await engine.execute(target, request)).toMatchObject({
      type: 'stuck',
      lastError: expect.stringMatching(/PAWL_KEY_WENT_BACK.*only answering the key is left/s) as string,
    })
    expect(charges()).toBe(1)
    // Unless that verdict was wrong.
    expect(await operator.unstick(name(), BECAUSE, NOT_EXECUTED)).toMatchObject({ type: 'done' })
    expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
  })
})

test('a verdict of "not executed" can be corrected while its call waits for its turn', async () => {
  let broken = false
  let calls = 0
  const target = pipeline<null>({ name: 'waits', version: 1, maxAttempts: 1 })
    .local('noted', () => {
      if (broken) throw new Error('no such table')
    })
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: () => ({ id: `ch_${++calls}` }),
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .local('after', loseCommits)
    .finish(({ state }) => respond(201, state))
  const engine = engineOf(target)
  await engine.execute(target, request)
  broken = true
  expect(await operator.unstick(name(), BECAUSE, NOT_EXECUTED)).toMatchObject({ type: 'done' })
  expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'attempts_exhausted' })
  broken = false
  expect(await operator.unstick(name(), BECAUSE, EXECUTED)).toMatchObject({ type: 'done' })
  const outcome = await engine.execute(target, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: 'ch_said' })
  expect(calls).toBe(1)
})

test('a final response of an earlier phase does not bury a call that is known to have been made', async () => {
  let refuses = false
  const target = pipeline<null>({ name: 'refuses', version: 1 })
    .local('noted', () => (refuses ? respond(409) : undefined))
    .foreign('charged', { guarantee: 'at_most_once', call: () => ({ id: 'ch_1' }) })
    .local('after', loseCommits)
    .finish(() => respond(201))
  const engine = engineOf(target)
  await engine.execute(target, request)
  await operator.unstick(name(), BECAUSE, EXECUTED)
  refuses = true
  expect(await engine.execute(target, request)).toMatchObject({
    type: 'stuck',
    reason: 'unknown_outcome',
    lastError: expect.stringMatching(/PAWL_KEY_WENT_BACK.*409/s) as string,
  })
  expect(await row()).toMatchObject({ intent: { kind: 'called', phase: 'charged', said: true } })
  // Once the phase lets it through, the call is settled.
  refuses = false
  expect(await operator.unstick(name(), BECAUSE, EXECUTED)).toMatchObject({ type: 'done' })
  expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
  expect(await effects()).toContainEqual({ phase: 'charged', reference: null })
})

const pass = (ms: number) =>
  database.rows(`UPDATE pawl.idempotency_keys SET updated_at = updated_at - $1 * interval '1 ms'`, [ms])
const sayNotExecuted = () => operator.unstick(name(), BECAUSE, NOT_EXECUTED)

describe("a call that was declared by another server's clock", () => {
  const HOUR_MS = 3_600_000
  const target = pipeline<null>({ name: 'elsewhere', version: 1 })
    .foreign('charged', { guarantee: 'at_most_once', call: () => ({ id: 'ch_1' }) })
    .finish(() => respond(201))

  async function stuckAfterFailover(offMs: number, declared: object): Promise<void> {
    const engine = engineOf(target)
    await engine.enqueue(target, request)
    const intent = { kind: 'calling', phase: 'charged', deadlineMs: Date.now() + 20_000 + offMs, server: '1' }
    await database.rows('UPDATE pawl.idempotency_keys SET intent = $1', [
      JSON.stringify({ ...intent, ...declared }),
    ])
    expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  }
  test.each([-HOUR_MS, HOUR_MS])(
    'may be under way for its whole time-out by the new clock, which is off by %i ms',
    async (offMs) => {
      await stuckAfterFailover(offMs, { timeoutMs: 30_000 })
      expect(await sayNotExecuted()).toMatchObject({
        type: 'refused',
        detail: expect.stringContaining("'charged' may still be under way until") as string,
      })
      await pass(30_000)
      expect(await sayNotExecuted()).toMatchObject({ type: 'done' })
    },
  )

  test('is waited for as long as any call may take, if its time-out is not known', async () => {
    await stuckAfterFailover(-HOUR_MS, {})
    await pass(23 * HOUR_MS)
    expect(await sayNotExecuted()).toMatchObject({ type: 'refused' })
    await pass(HOUR_MS)
    expect(await sayNotExecuted()).toMatchObject({ type: 'done' })
  })

  const silent = pipeline<null>({ name: 'silent', version: 1, callTimeoutMs: 40 })
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: () => {
        throw new Error('cut off')
      },
    })
    .finish(() => respond(201))

  test('has been declared with how long it may take', async () => {
    await engineOf(silent).execute(silent, request)
    expect(await row()).toMatchObject({ intent: { kind: 'calling', timeoutMs: 40 } })
  })
})
