import { randomUUID } from 'node:crypto'
import { Session } from 'node:inspector/promises'
import type { HeapProfiler } from 'node:inspector'
import { createBackground } from '@pawl/core'
import { instrument } from '@pawl/opentelemetry'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { Spans } from './spans.js'

let database: TestDatabase

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

/** Functions on the way of a request that allocate nothing but what a tracing is given. */
const ON_THE_WAY = [
  'requestToTrace',
  'grantToTrace',
  'callToTrace',
  'traceStep',
  'runTracedStep',
  '#traced',
  'acquire',
  '#acquireFor',
  'traceBody',
  'bodyLater',
  'traceCall',
  'callLater',
  'traceRound',
]

/** Those that build something for a tracing. */
const BUILD = [
  'requestToTrace',
  'grantToTrace',
  'callToTrace',
  'runTracedStep',
  '#traced',
  '#acquireFor',
  'bodyLater',
  'callLater',
]

/** Files that are there for a tracing alone. */
const FOR_TRACING = /packages\/(?:opentelemetry|core\/src\/announce\/(?:guard-)?tracing)/

/** Every allocation of some work is recorded, also of what is collected at once. Returns bytes by function and file. */
async function allocations(work: () => Promise<void>): Promise<Map<string, number>> {
  const session = new Session()
  session.connect()
  onTestFinished(() => session.disconnect())
  await session.post('HeapProfiler.enable')
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: 1,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  } as HeapProfiler.StartSamplingParameterType)
  await work()
  const { profile } = await session.post('HeapProfiler.stopSampling')
  const found = new Map<string, number>()
  const add = ({ callFrame, selfSize, children }: HeapProfiler.SamplingHeapProfileNode): void => {
    const { functionName, url } = callFrame
    const name = `${functionName} ${url}`
    found.set(name, (found.get(name) ?? 0) + selfSize)
    for (const child of children) add(child)
  }
  add(profile.head)
  return found
}

/** Of what is there for a tracing. */
function forTracing(found: ReadonlyMap<string, number>): string[] {
  return [...found]
    .filter(([, bytes]) => bytes > 0)
    .map(([name]) => name)
    .filter((name) => {
      const [functionName = '', url = ''] = name.split(' ')
      return FOR_TRACING.test(url) || (/packages\/core/.test(url) && ON_THE_WAY.includes(functionName))
    })
}

test('without a listener, nothing is allocated for one; with one, it is seen here', async () => {
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  const background = createBackground({ engine })
  const requests = async (): Promise<void> => {
    const request = { scope: trial.scope, key: randomUUID(), input: { amount: 1_200 } }
    expect(await engine.execute(trial.pipeline, request)).toMatchObject({ type: 'completed' })
    for (let times = 0; times < 5; times++)
      expect(await engine.execute(trial.pipeline, request)).toMatchObject({ type: 'replayed' })
    await background.runOnce()
  }
  // It was listened to once: what is left of that costs nothing either. What is compiled when it is first used is compiled here.
  const first = instrument({ engine })
  await requests()
  first.stop()
  await requests()

  // What the engine of JavaScript itself notes of a function, such as after so many calls, is not there in each of several rounds.
  const without = await allocations(requests)
  let always = forTracing(without)
  for (let round = 0; round < 2; round++) {
    const again = forTracing(await allocations(requests))
    always = always.filter((name) => again.includes(name))
  }
  expect(always).toEqual([])
  // Everything else is seen.
  expect([...without.keys()].some((name) => /packages\/core/.test(name))).toBe(true)

  const { stop } = instrument({
    engine,
    tracerProvider: new Spans().provider,
    meterProvider: new MeterProvider(),
  })
  const names = forTracing(await allocations(requests))
  for (const name of BUILD)
    expect(
      names.some((each) => each.startsWith(`${name} `)),
      name,
    ).toBe(true)
  expect(names.some((name) => FOR_TRACING.test(name))).toBe(true)
  stop()
  await engine.close()
})
