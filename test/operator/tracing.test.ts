import { randomUUID } from 'node:crypto'
import { createBackground, deliverEach, type Engine, type JobToDeliver } from '@pawl/core'
import { type Tracing, traceEngine } from '@pawl/core/internal'
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest'
import { NameHasher } from '../../packages/core/src/announce/name-hasher.js'
import { engineThatDiesAt } from '../support/crash.js'
import { ProviderError } from '../support/provider.js'
import { RecordedTracing } from '../support/recorded-tracing.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideOf, createRideTables, type Database } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const FIRST = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const SECOND = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

let database: TestDatabase

beforeAll(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterAll(() => database.drop())
afterEach(() => {
  vi.restoreAllMocks()
})

let trial: RideTrial
beforeEach(() => {
  trial = new RideTrial(database)
})

function engineFor(of: RideTrial = trial): Engine<Database> {
  const engine = createEngine(of.options())
  onTestFinished(() => engine.close())
  return engine
}

describe('a request that is traced', () => {
  test('has its phases inside of it, and their functions and calls inside of those', async () => {
    const seen: string[] = []
    const watching = new RideTrial(database, (provider) =>
      createRideOf({
        charge: (amount, options) => {
          seen.push(RecordedTracing.here)
          return provider.charge(amount, options)
        },
      }),
    )
    const engine = engineFor(watching)
    const tracing = new RecordedTracing()
    onTestFinished(traceEngine(engine, tracing))
    expect((await watching.execute(engine)).type).toBe('completed')
    const request = 'request execute'
    const charged = `${request} > foreign charge_created (call)`
    expect(tracing.began).toEqual([
      request,
      `${request} > granted`,
      `${request} > local ride_created (run_local)`,
      `${request} > local ride_created (run_local) > body ride_created`,
      charged,
      `${charged} > call charge_created (keyed charge_created)`,
      `${charged} > body charge_created`,
      `${request} > finish finished (finish)`,
      `${request} > finish finished (finish) > body finished`,
    ])
    expect(tracing.ended).toEqual([
      'body ride_created: done',
      'local ride_created (run_local): advanced ride_created',
      'call charge_created (keyed charge_created): done',
      'body charge_created: done',
      'foreign charge_created (call): advanced charge_created',
      'body finished: done',
      'finish finished (finish): finished',
      'request execute: completed',
    ])
    expect(seen).toEqual([`${charged} > call charge_created (keyed charge_created)`])
    expect(tracing.waits.length).toBeGreaterThan(0)
    for (const wait of tracing.waits) expect(wait).toEqual({ ms: expect.any(Number), got: true })
  })

  test('has one step for a leg of several phases, and a function for each', async () => {
    const engine = createEngine({ ...trial.options(), defaults: { commits: 'fewest' } })
    onTestFinished(() => engine.close())
    const tracing = new RecordedTracing()
    traceEngine(engine, tracing)
    await trial.execute(engine)
    expect(tracing.ended).toContain('foreign charge_created (call): finished charge_created')
    expect(tracing.began.filter((path) => path.includes('charge_created (call) > body'))).toEqual([
      'request execute > foreign charge_created (call) > body charge_created',
      'request execute > foreign charge_created (call) > body finished',
    ])
  })

  test('ends like the request: replayed, or with what it throws', async () => {
    const engine = engineFor()
    const tracing = new RecordedTracing()
    traceEngine(engine, tracing)
    await trial.execute(engine)
    await trial.execute(engine)
    expect(tracing.ended.at(-1)).toBe('request execute: replayed')
    await engine.enqueue(trial.pipeline, { scope: trial.scope, key: randomUUID(), input: { amount: 3 } })
    expect(tracing.ended.at(-1)).toBe('request enqueue: enqueued')
  })

  test('names what failed, and passes its error on', async () => {
    const failing = new RideTrial(database, () =>
      createRideOf({
        charge: () => {
          throw new ProviderError(503, 'busy')
        },
      }),
    )
    const engine = engineFor(failing)
    const ends: unknown[] = []
    const tracing: Tracing = new RecordedTracing()
    const phase: Tracing['phase'] = async (of, run) => {
      const end = await run()
      ends.push([of.phase, end.type, end.error])
      return end
    }
    traceEngine(engine, withMethods(tracing, { phase }))
    expect(await failing.execute(engine)).toMatchObject({ type: 'retry_later' })
    expect(ends).toEqual([
      ['ride_created', 'advanced', undefined],
      ['charge_created', 'failed', expect.any(ProviderError)],
    ])
  })
})

describe('the traceparent', () => {
  test('of the first attempt leads to it from the retry, in whatever process', async () => {
    const doomed = engineThatDiesAt(trial.options(), 'charge_created/call#1:after')
    traceEngine(doomed.engine, new RecordedTracing([FIRST]))
    void trial.execute(doomed.engine)
    await doomed.died
    await database.expireLeases()
    const engine = engineFor()
    const tracing = new RecordedTracing([SECOND])
    traceEngine(engine, tracing)
    expect((await trial.execute(engine)).type).toBe('completed')
    expect(tracing.grants).toEqual([
      {
        how: 'taken_over',
        keyId: expect.any(String),
        keyHash: expect.any(String),
        scopeHash: expect.any(String),
        pipeline: 'create-ride',
        version: 1,
        fence: 2,
        attempts: 1,
        recoveryPoint: 'ride_created',
        traceparent: FIRST,
      },
    ])
    expect(await engine.inspect(trial.scope, trial.key)).toMatchObject({
      traceparent: FIRST,
      revision: expect.any(Number),
    })
  })

  test('goes with the job that a phase stages', async () => {
    const engine = engineFor()
    traceEngine(engine, new RecordedTracing([FIRST]))
    await trial.execute(engine)
    const got: JobToDeliver[] = []
    const sink = deliverEach(async (job) => void got.push(job))
    const { relays } = createBackground({ engine, relay: { sink }, completer: false, reaper: false })
    await relays[0]?.runOnce()
    expect(got.map(({ name, traceparent }) => [name, traceparent])).toContainEqual(['send_receipt', FIRST])
  })

  test('is stored with a key that is enqueued, and given to the completer that runs it', async () => {
    const engine = engineFor()
    const tracing = new RecordedTracing([FIRST])
    traceEngine(engine, tracing)
    const request = { scope: trial.scope, key: trial.key, input: { amount: 3 } }
    const enqueued = await engine.enqueue(trial.pipeline, request)
    const keyId = enqueued.type === 'enqueued' ? enqueued.keyId : ''
    const { completer } = createBackground({ engine, reaper: false })
    await completer?.runOnce()
    expect(tracing.grants.filter((grant) => grant.keyId === keyId)).toMatchObject([
      { how: 'taken_over', traceparent: FIRST },
    ])
    expect(tracing.began).toContain('round completer')
    expect(tracing.began).toContain('round completer > request resume')
  })

  test.each([
    'what is this',
    '',
    FIRST.toUpperCase(),
    `${FIRST}-more`,
    `01${FIRST.slice(2)}`,
    '00-00000000000000000000000000000000-b7ad6b7169203331-01',
    '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01',
    42,
  ])('%j is none: it is not stored, and reported once', async (wrong) => {
    const warnings = hear('pawl:warning')
    const engine = engineFor()
    traceEngine(engine, new RecordedTracing([wrong as string, wrong as string]))
    await trial.execute(engine)
    const again = { scope: trial.scope, key: randomUUID(), input: { amount: 1 } }
    await engine.execute(trial.pipeline, again)
    expect((await engine.inspect(trial.scope, trial.key))?.traceparent).toBeNull()
    expect(warnings.filter(({ message }) => message.includes('traceparent'))).toHaveLength(1)
  })
})

const fails = (): never => {
  throw new Error('a bug of the tracing')
}

describe('a tracing that fails', () => {
  const failing: Record<string, Tracing> = {
    'throws at once': methods(fails),
    'runs what it is given, and throws then': methods((run) => {
      run?.().catch(() => {})
      return fails()
    }),
    'rejects afterwards': methods(async (run) => {
      await run?.()
      return fails()
    }),
    'never runs what it is given': methods(() => new Promise(() => {})),
    'runs it too late': methods(async (run) => {
      await new Promise((resolve) => setImmediate(resolve))
      return run?.()
    }),
    'runs it twice, and returns something else': methods(async (run) => {
      await Promise.all([run?.(), run?.()])
      return 'something else'
    }),
    'returns nothing': methods(() => undefined),
    'returns a promise that cannot be waited for': methods(() => {
      const promise = Promise.resolve()
      vi.spyOn(promise, 'then').mockImplementation(fails)
      return promise
    }),
  }

  test.each(Object.entries(failing))('%s changes no outcome', async (_name, tracing) => {
    const engine = engineFor()
    traceEngine(engine, tracing)
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await trial.rides()).toHaveLength(1)
    expect(await trial.provider.ledger()).toHaveLength(1)
    const background = createBackground({ engine, relay: { sink: deliverEach(async () => {}) } })
    expect(await background.runOnce()).toMatchObject({ completer: {}, reaper: {} })
  })

  test('is reported once for each of its methods', async () => {
    const warnings = hear('pawl:warning')
    const engine = engineFor()
    traceEngine(engine, methods(fails))
    await trial.execute(engine)
    await trial.execute(engine)
    const reported = warnings
      .map(({ message }) => message)
      .filter((message) => message.includes("engine's tracing"))
    expect(
      reported.map((message) => message.split(' ')[0] ?? '').toSorted((a, b) => a.localeCompare(b)),
    ).toEqual(['body', 'call', 'granted', 'phase', 'request', 'traceparent', 'waited'])
  })

  test('does not hide what a request throws', async () => {
    const engine = engineFor()
    traceEngine(
      engine,
      methods((run) => run?.()),
    )
    await trial.execute(engine)
    const other = { scope: trial.scope, key: 'k', input: { amount: 1 }, fingerprint: { n: Number.NaN } }
    await expect(engine.execute(trial.pipeline, other as never)).rejects.toMatchObject({ name: 'PawlError' })
  })
})

describe('traceEngine', () => {
  test('takes one tracing at a time', async () => {
    const engine = engineFor()
    const stop = traceEngine(engine, new RecordedTracing())
    expect(() => traceEngine(engine, new RecordedTracing())).toThrow(/is traced already/)
    stop()
    const second = new RecordedTracing()
    const stopSecond = traceEngine(engine, second)
    // What was taken away before takes nothing else with it.
    stop()
    await trial.execute(engine)
    expect(second.grants).toHaveLength(1)
    stopSecond()
    await trial.execute(engine)
    expect(second.ended.filter((end) => end.startsWith('request'))).toHaveLength(1)
  })

  test('refuses what is not an engine, and what is not a tracing', () => {
    expect(() => traceEngine({} as Engine<Database>, new RecordedTracing())).toThrow(/traceEngine: engine is/)
    const without = { ...methods(() => undefined), granted: undefined }
    expect(() => traceEngine(engineFor(), without as never)).toThrow(
      'traceEngine: granted is undefined; it takes a function.',
    )
  })
})

test('without a tracing, nothing is built for one: not even a name is hashed', async () => {
  const hash = vi.spyOn(NameHasher.prototype, 'hash')
  const engine = engineFor()
  const stop = traceEngine(
    engine,
    methods((run) => run?.()),
  )
  stop()
  await trial.execute(engine)
  await trial.execute(engine)
  expect(hash).not.toHaveBeenCalled()
  traceEngine(
    engine,
    methods((run) => run?.()),
  )
  await trial.execute(engine)
  expect(hash).toHaveBeenCalled()
})

/** A tracing all of whose methods do the same; `run` is undefined for those that go around nothing. */
function methods(does: (run?: () => Promise<unknown>) => unknown): Tracing {
  const around = (_of: unknown, run: () => Promise<unknown>): unknown => does(run)
  const alone = (): unknown => does()
  return {
    request: around,
    phase: around,
    body: around,
    call: around,
    round: around,
    traceparent: () => does() ?? null,
    granted: alone,
    waited: alone,
  } as unknown as Tracing
}

/** The same with some methods replaced. */
function withMethods(tracing: Tracing, replaced: Partial<Tracing>): Tracing {
  return {
    request: (of, run) => tracing.request(of, run),
    phase: (of, run) => tracing.phase(of, run),
    body: (of, run) => tracing.body(of, run),
    call: (of, run) => tracing.call(of, run),
    round: (of, run) => tracing.round(of, run),
    traceparent: () => tracing.traceparent(),
    granted: (grant) => tracing.granted(grant),
    waited: (ms, got) => tracing.waited(ms, got),
    ...replaced,
  }
}
