import { AsyncResource } from 'node:async_hooks'
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { context, propagation, type SpanContext, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici'
import { createBackground, deliverEach, respond, retryLater } from '@pawl/core'
import { contextOf, instrument } from '@pawl/opentelemetry'
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { linked, Spans } from './spans.js'
import type { Engine, Pipeline } from '@pawl/core'

const CHILD = fileURLToPath(new URL('fixtures/instrumented-ride.mjs', import.meta.url))

let database: TestDatabase
let spans: Spans

beforeAll(() => {
  // What `NodeTracerProvider.register` does, in a way that can be undone.
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
})
afterAll(() => {
  context.disable()
  propagation.disable()
})
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  spans = new Spans()
})
afterEach(() => database.drop())

function traced(options: Parameters<typeof createEngine>[0], more: { readonly idleRounds?: boolean } = {}) {
  const engine = createEngine(options)
  const { stop } = instrument({ engine, tracerProvider: spans.provider, ...more })
  onTestFinished(async () => {
    stop()
    await engine.close()
  })
  return engine
}

const engineFor = (...pipelines: Pipeline<Database, null>[]): Engine<Database> =>
  traced({ pool: database.pool(), pipelines, schema: database.schema })

test('a request has a span, each phase and call one below it, and the HTTP client goes on from there', async () => {
  const undici = new UndiciInstrumentation()
  undici.setTracerProvider(spans.provider)
  onTestFinished(() => undici.disable())
  const trial = new RideTrial(database)
  const engine = traced(trial.options())
  await context.with(trace.setSpanContext(context.active(), REMOTE), () => trial.execute(engine))
  const request = await spans.named('execute create-ride')
  expect(spans.tree(request)).toEqual({
    'execute create-ride': [
      'phase ride_created',
      { 'phase charge_created': [{ 'call charge_created': ['POST'] }] },
      'phase finished',
    ],
  })
  expect(request.parentSpanContext?.spanId).toBe(REMOTE.spanId)
  const row = await trial.row()
  expect(request.attributes).toEqual({
    'pawl.by': 'execute',
    'pawl.kind': 'pipeline',
    'pawl.pipeline': 'create-ride',
    'pawl.version': 1,
    'pawl.outcome': 'completed',
    'pawl.grant': 'reserved',
    'pawl.grant.recovery_point': 'started',
    'pawl.fence': 1,
    'pawl.attempt': 1,
    'pawl.key.id': row?.id,
    'pawl.key.hash': expect.stringMatching(/^[\da-f]{16}$/),
    'pawl.scope.hash': expect.stringMatching(/^[\da-f]{16}$/),
    'pawl.response.status': 201,
  })
  expect(request.status.code).toBe(SpanStatusCode.UNSET)
  expect(linked(request)).toEqual([])
  const phase = await spans.named('phase charge_created')
  expect(phase.attributes).toEqual({
    'pawl.pipeline': 'create-ride',
    'pawl.phase': 'charge_created',
    'pawl.phase.kind': 'foreign',
    'pawl.step': 'call',
    'pawl.phase.result': 'advanced',
    'pawl.committed': ['charge_created'],
  })
  const call = await spans.named('call charge_created')
  expect(call.attributes).toMatchObject({ 'pawl.effect': 'charge_created', 'pawl.guarantee': 'keyed' })
  expect(JSON.stringify(spans.ended.map(({ attributes }) => attributes))).not.toContain(trial.scope)
})

/** That of a request that came in. */
const REMOTE: SpanContext = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  traceFlags: 1,
  isRemote: true,
}

test('what becomes of a killed request links to its span, from the process that goes on', async () => {
  const trial = new RideTrial(database)
  const dead = await killedRide(trial, 'charge_created/call#1:after')
  const [row] = await database.rows<{ traceparent: string }>('SELECT traceparent FROM pawl.idempotency_keys')
  expect(row?.traceparent).toBe(`00-${dead.traceId}-${dead.spanId}-01`)
  await database.expireLeases()

  const engine = traced(trial.options())
  const background = createBackground({ engine, reaper: false })
  expect(await background.runOnce()).toMatchObject({ completer: { found: 1, completed: 1 } })
  const resumed = await spans.named('resume create-ride')
  expect(linked(resumed)).toEqual([{ traceId: dead.traceId, spanId: dead.spanId }])
  expect(resumed.parentSpanContext).toBeUndefined()
  expect(resumed.spanContext().traceId).not.toBe(dead.traceId)
  expect(resumed.attributes).toMatchObject({
    'pawl.by': 'resume',
    'pawl.pipeline': 'create-ride',
    'pawl.grant': 'taken_over',
    'pawl.fence': 2,
    'pawl.attempt': 1,
    'pawl.grant.recovery_point': 'ride_created',
    'pawl.outcome': 'completed',
  })
  expect((await spans.named('completer round')).attributes).toMatchObject({
    'pawl.service': 'completer',
    'pawl.round.completed': 1,
  })
})

/** Executes the request in a process that dies at a position. Returns where its span was. */
async function killedRide(trial: RideTrial, at: string): Promise<SpanContext> {
  const { url, schema, businessSchema } = database
  const { account, url: providerUrl } = trial.provider
  const applicationName = `traced_${randomUUID()}`
  const where = { url, schema, businessSchema, applicationName, providerUrl, account, at }
  const child = fork(CHILD, [JSON.stringify({ ...where, scope: trial.scope, key: trial.key })])
  const closed = once(child, 'close')
  const [said] = (await once(child, 'message')) as [SpanContext]
  const [, signal] = (await closed) as [number | null, string | null]
  expect(signal).toBe('SIGKILL')
  await database.backendsGone(applicationName)
  return said
}

test('a job carries the trace of its request to the queue', async () => {
  const trial = new RideTrial(database)
  const engine = traced(trial.options())
  await trial.execute(engine)
  const request = await spans.named('execute create-ride')
  const delivered: (SpanContext | undefined)[] = []
  const sink = deliverEach(async (job) => {
    const inside = contextOf(job.traceparent)
    delivered.push(trace.getSpanContext(inside))
    await Promise.resolve()
  })
  const background = createBackground({ engine, relay: { sink }, completer: false, reaper: false })
  await background.runOnce()
  const { traceId, spanId } = request.spanContext()
  expect(delivered).toMatchObject([{ traceId, spanId, isRemote: true }])
  expect((await spans.named('relay round')).attributes).toMatchObject({ 'pawl.round.delivered': 1 })
})

test('a sink that goes on with the trace of its job keeps it in what it executes; a resume is a trace of its own', async () => {
  const stages = pipeline<null>({ name: 'stages', version: 1 }).finish(async ({ stage }) => {
    await stage('notify', {})
    return respond(204)
  })
  const notifies = pipeline<null>({ name: 'notifies', version: 1 }).finish(() => respond(204))
  for (const idleRounds of [false, true]) {
    spans.clear()
    const pipelines = [stages, notifies]
    const engine = traced({ pool: database.pool(), pipelines, schema: database.schema }, { idleRounds })
    await engine.execute(stages, { scope: 's', key: `k ${idleRounds}`, input: null })
    await engine.enqueue(notifies, { scope: 's', key: `later ${idleRounds}`, input: null })
    const sink = deliverEach((job) =>
      context.with(
        contextOf(job.traceparent),
        async () => void (await engine.execute(notifies, { scope: 's', key: job.id, input: null })),
      ),
    )
    await createBackground({ engine, relay: { sink }, reaper: false }).runOnce()
    const { traceId, spanId } = (await spans.named('execute stages')).spanContext()
    const notified = await spans.named('execute notifies')
    expect(notified.spanContext().traceId).toBe(traceId)
    expect(notified.parentSpanContext?.spanId).toBe(spanId)
    expect((await spans.named('resume notifies')).parentSpanContext).toBeUndefined()
  }
})

test('what is no traceparent begins a trace of its own', () => {
  for (const text of [
    null,
    '',
    'x',
    `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`,
    `00-${'a'.repeat(32)}-short-01`,
  ])
    expect(trace.getSpanContext(contextOf(text)), String(text)).toBeUndefined()
  expect(trace.getSpanContext(contextOf(`01-${'a'.repeat(32)}-${'b'.repeat(16)}-00-more`))).toEqual({
    traceId: 'a'.repeat(32),
    spanId: 'b'.repeat(16),
    traceFlags: 0,
    isRemote: true,
  })
})

test('rounds that did nothing have no span, unless somebody asks for them', async () => {
  const trial = new RideTrial(database)
  const quiet = createBackground({ engine: traced(trial.options()) })
  await quiet.runOnce()
  expect(spans.ended).toEqual([])
  const loud = createBackground({ engine: traced(trial.options(), { idleRounds: true }) })
  await loud.runOnce()
  expect(spans.ended.map(({ name }) => name).toSorted()).toEqual(['completer round', 'reaper round'])
})

test('a round that fails has a span that says so', async () => {
  const pool = database.pool()
  const engine = traced({ pool, pipelines: [], schema: 'nowhere' })
  const background = createBackground({ engine, completer: false })
  await expect(background.runOnce()).rejects.toThrow()
  const round = await spans.named('reaper round')
  expect(round.status.code).toBe(SpanStatusCode.ERROR)
})

test('what a phase, a call and a request failed with is in their spans, without secrets', async () => {
  const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc'
  const failing = pipeline<null>({ name: 'failing', version: 1 })
    .foreign('charged', {
      call: () => {
        throw new Error(`refused: ${secret}`)
      },
      settle: () => ({}),
    })
    .finish(() => respond(204))
  const engine = engineFor(failing)
  const outcome = await engine.execute(failing, { scope: 's', key: randomUUID(), input: null })
  expect(outcome.type).toBe('retry_later')
  for (const name of ['execute failing', 'phase charged', 'call charged']) {
    const span = await spans.named(name)
    expect(span.status.code, name).toBe(SpanStatusCode.ERROR)
    expect(span.status.message, name).toMatch(/^refused: /)
    expect(
      span.events.map((event) => event.name),
      name,
    ).toEqual(['exception'])
    expect(JSON.stringify([span.status, span.events, span.attributes]), name).not.toContain(secret)
  }
})

test('a phase that asks for another attempt is no error of the request', async () => {
  const resting = pipeline<null>({ name: 'resting', version: 1 }).finish(() => retryLater())
  const engine = engineFor(resting)
  await engine.execute(resting, { scope: 's', key: randomUUID(), input: null })
  const request = await spans.named('execute resting')
  expect(request.status.code).toBe(SpanStatusCode.UNSET)
  expect(request.attributes).toMatchObject({
    'pawl.outcome': 'retry_later',
    'pawl.retry.reason': 'asked_by_phase',
  })
})

test('phases that share a transaction are parts of its span', async () => {
  const inner: (SpanContext | undefined)[] = []
  const note = (): Record<string, never> => {
    inner.push(trace.getSpanContext(context.active()))
    return {}
  }
  const leg = pipeline<null>({ name: 'leg', version: 1, commits: 'fewest' })
    .local('one', note)
    .local('two', note)
    .finish(() => respond(204))
  const engine = engineFor(leg)
  await engine.execute(leg, { scope: 's', key: randomUUID(), input: null })
  const request = await spans.named('execute leg')
  expect(spans.tree(request)).toEqual({ 'execute leg': [{ 'phase one': ['phase two', 'phase finished'] }] })
  const ids = [
    (await spans.named('phase one')).spanContext().spanId,
    (await spans.named('phase two')).spanContext().spanId,
  ]
  expect(inner.map((span) => span?.spanId)).toEqual(ids)
})

test('an engine is instrumented once at a time', async () => {
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  const first = instrument({ engine, tracerProvider: spans.provider })
  expect(() => instrument({ engine })).toThrow(/traced already/)
  first.stop()
  first.stop()
  await trial.execute(engine)
  expect(spans.started).toEqual([])
  instrument({ engine, tracerProvider: spans.provider }).stop()
  await engine.close()
})

test('without an SDK, requests run as ever', async () => {
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  const { stop } = instrument({ engine })
  expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
  expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
  stop()
  await engine.close()
})

test('a request of another engine that is instrumented meanwhile is no part of the one that asked for it', async () => {
  const asked = pipeline<null>({ name: 'asked', version: 1 })
    .local('begun', () => {
      onTestFinished(instrument({ engine: other, tracerProvider: spans.provider }).stop)
    })
    .local('unseen', () => {})
    .finish(() => respond(204))
  const other = createEngine({ pool: database.pool(), pipelines: [asked], schema: database.schema })
  onTestFinished(() => other.close())
  const asking = pipeline<null>({ name: 'asking', version: 1 })
    .foreign('answered', {
      call: async () => {
        const { type } = await other.execute(asked, { scope: 's', key: randomUUID(), input: null })
        return { type }
      },
      settle: () => {},
    })
    .finish(() => respond(204))
  const engine = engineFor(asking)
  await engine.execute(asking, { scope: 's', key: randomUUID(), input: null })
  expect(spans.tree(await spans.named('execute asking'))).toEqual({
    'execute asking': [{ 'phase answered': ['call answered'] }, 'phase finished'],
  })
})

test('engines that come and go leave nothing behind that makes promises slower', async () => {
  const before = storesOfTheProcess()
  for (let round = 0; round < 3; round++) {
    const engine = createEngine({ pool: database.pool(), pipelines: [], schema: database.schema })
    instrument({ engine, tracerProvider: spans.provider }).stop()
    const trial = new RideTrial(database)
    const used = createEngine(trial.options())
    const { stop } = instrument({ engine: used, tracerProvider: spans.provider })
    await trial.execute(used)
    stop()
    await Promise.all([engine.close(), used.close()])
  }
  expect(storesOfTheProcess() - before).toBeLessThanOrEqual(1)
})

/** How many stores follow every promise: Node keeps them as symbols on whatever is created. */
function storesOfTheProcess(): number {
  return Object.getOwnPropertySymbols(new AsyncResource('test')).filter(
    ({ description }) => description === 'kResourceStore',
  ).length
}
