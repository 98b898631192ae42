import { randomUUID } from 'node:crypto'
import type { Engine, Pipeline } from '@pawl/core'
import { onTestFinished } from 'vitest'
import { LAYOUT } from '../support/layout.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import type { EngineUnderTest } from './load-variant.js'
import type { ScenarioVariantName } from './variants.js'

/** What the crash kit cannot see, because its cases have one key and one scope. Returns what was wrong; null if nothing was. */
type Scenario = (under: EngineUnderTest) => Promise<string | null>

/** Scopes: requests and jobs of one of them hang. */
const LOUD = 'loud'
const QUIET = 'quiet'

/** How much a service has under way at a time where requests hang. */
const PLACES = 4

/** How much each scope has. In turns with another one, it has taken all places that it gets long before that. */
const EACH = 3 * PLACES

/** An engine on tables of the core under test. Both end with the test. */
async function engineOf<Input>(
  { core }: EngineUnderTest,
  pipelineOf: (define: ReturnType<EngineUnderTest['core']['pawl']>['pipeline']) => Pipeline<unknown, Input>,
): Promise<{ readonly engine: Engine<unknown>; readonly pipeline: Pipeline<unknown, Input> }> {
  const database = await TestDatabase.createNew()
  await database.rows(`DROP SCHEMA ${database.schema} CASCADE`)
  await core.migrate(database.admin, { schema: database.schema, ...LAYOUT })
  const pipeline = pipelineOf(core.pawl().pipeline)
  const { schema } = database
  const engine = core.createEngine({ pool: database.pool(), pipelines: [pipeline], schema })
  onTestFinished(async () => {
    await engine.close()
    await database.drop()
  })
  return { engine, pipeline }
}

type Begin = (scope: string) => Promise<void>

/** What one scope asked for first hangs. Another one's ends at once: all of it, unless the first one has every place. */
async function placesOf(run: (begin: Begin) => Promise<Running>): Promise<string | null> {
  const { opened: decided, open: decide } = gate()
  const letGo = gate()
  const count = { [LOUD]: 0, [QUIET]: 0 }
  const running = await run(async (scope) => {
    count[scope as keyof typeof count]++
    if (count[LOUD] === PLACES || count[QUIET] === EACH) decide()
    if (scope === LOUD) await letGo.opened
  })
  running.service.start()
  await decided
  const result = count[LOUD] === PLACES ? `one scope has all ${PLACES} places, and another one none` : null
  letGo.open()
  await running.service.stop()
  return result
}

/** Of two scopes of which one came first, each is next in turn. */
async function orderOf(run: (begin: Begin) => Promise<Running>): Promise<string | null> {
  const { opened: ended, open: end } = gate()
  const begun: string[] = []
  const running = await run(async (scope) => {
    if (begun.push(scope) === 2 * EACH) end()
  })
  running.service.start()
  await ended
  await running.service.stop()
  const before = begun.indexOf(QUIET)
  return before > 1 ? `${before} of one scope came before the first of another` : null
}

interface Running {
  readonly service: { start(): void; stop(): Promise<void> }
}

/** A completer that finds requests of two scopes, of which one came first. */
const completing =
  (under: EngineUnderTest, concurrency: number) =>
  async (begin: Begin): Promise<Running> => {
    const { engine, pipeline } = await engineOf(under, (define) =>
      define<null>({ name: 'turns', version: 1 })
        .foreign('asked', { call: ({ scope }) => begin(scope) })
        .finish(() => under.core.respond(204)),
    )
    for (const scope of [LOUD, QUIET])
      for (let nth = 0; nth < EACH; nth++)
        await engine.enqueue(pipeline, { scope, key: randomUUID(), input: null })
    const completer = { concurrency, pollMs: 1 }
    const { completer: service } = under.core.createBackground({ engine, completer, reaper: false })
    if (service === null) throw new Error('there is no completer')
    return { service }
  }

/** A relay that finds jobs of two scopes, of which one came first. */
const relaying =
  (under: EngineUnderTest, concurrency: number) =>
  async (begin: Begin): Promise<Running> => {
    const { engine, pipeline } = await engineOf(under, (define) =>
      define<null>({ name: 'jobs', version: 1 }).finish(async ({ scope, stage }) => {
        await stage(scope, null)
        return under.core.respond(204)
      }),
    )
    for (const scope of [LOUD, QUIET])
      for (let nth = 0; nth < EACH; nth++)
        await engine.execute(pipeline, { scope, key: randomUUID(), input: null })
    const sink = under.core.deliverEach(({ name }) => begin(name))
    const { relays } = under.core.createBackground({
      engine,
      completer: false,
      reaper: false,
      relay: { sink, concurrency, batchSize: 1, pollMs: 1 },
    })
    const [service] = relays
    if (service === undefined) throw new Error('there is no relay')
    return { service }
  }

/** What was read for those who wait for one key answers nobody who waits for another. */
const waitersAnswers: Scenario = async (under) => {
  const { executeFound, lookAtKey } = under.internal
  const { engine, pipeline } = await engineOf(under, (define) =>
    define<null>({ name: 'waited', version: 1 }).finish(({ scope }) =>
      under.core.respond(200, { of: scope }),
    ),
  )
  await engine.execute(pipeline, { scope: LOUD, key: 'key', input: null })
  const look = await lookAtKey(engine, LOUD, 'key')
  if (look.type !== 'answered') throw new Error(`it is ${look.type}`)
  for (const other of [
    { scope: QUIET, key: 'key' },
    { scope: LOUD, key: 'another key' },
  ]) {
    const outcome = await executeFound(engine, pipeline, { ...other, input: null }, look.row)
    if (outcome.type !== 'completed') return `${JSON.stringify(other)} got the answer of another key`
  }
  return null
}

/** By the engine that each of them finds. */
export const SCENARIOS = {
  'completer-without-places': (under) => placesOf(completing(under, PLACES)),
  'completer-without-turns': (under) => orderOf(completing(under, 1)),
  'relay-without-places': (under) => placesOf(relaying(under, PLACES)),
  'found-for-anybody': waitersAnswers,
} as const satisfies Record<ScenarioVariantName, Scenario>
