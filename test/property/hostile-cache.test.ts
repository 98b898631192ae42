import { randomUUID } from 'node:crypto'
import { createOperator, type Engine, type Outcome, respond, subscribe } from '@pawl/core'
import fc from 'fast-check'
import { afterAll, expect, test, vi } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { MoodyCache, type Mood, MOODS } from '../support/moody-cache.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { ServerClock } from '../support/server-clock.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { assertProperty } from './support/assert-property.js'

/** How long an engine may go by an epoch, and by a mark: twenty times as fast as by default, so that a case has time for all of it. */
const HEARS_WITHIN_MS = 50

vi.mock(import('../../packages/core/src/limits.js'), async (original) => ({
  ...(await original()),
  CACHE_EPOCH_MAX_AGE_MS: 50 as 1_000,
  CACHE_EPOCH_ASK_MS: 10,
  CACHE_EPOCH_SLACK_MS: 10 as 100,
  CACHE_MARK_MS: 50 as 1_000,
  CACHE_REST_MS: 1,
}))

/** Each case has hundreds of requests. */
const RUNS = Math.ceil(amountOf('pipelineRuns') / 3)

const RETENTION_MS = 2 * 3_600_000

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
const because = { actor: 'anna@ops-1', reason: 'case 4711' }

let fromCache = 0
afterAll(subscribe('pawl:replayed', ({ from }) => void (fromCache += from === 'cache' ? 1 : 0)))

const KEYS = 3
const ENGINES = 2
const keys = Array.from({ length: KEYS }, (_, key) => key)
const engines = Array.from({ length: ENGINES }, (_, engine) => engine)

/** What happens to finished keys. */
const CHANGES = ['forget', 'erase', 'deleteByHand', 'expire', 'failOver', 'restore'] as const

interface Asked {
  readonly engine: number
  readonly key: number
  readonly input: number
}

type Command =
  | ({ readonly do: 'execute'; readonly times: number } & Asked)
  | { readonly do: 'hold'; readonly engine: number; readonly key: number }
  | { readonly do: (typeof CHANGES)[number] | 'newProcess' | 'bringBackOldValues'; readonly key: number }

const ofKey = { key: fc.nat({ max: KEYS - 1 }) }
const ofEngine = { ...ofKey, engine: fc.nat({ max: ENGINES - 1 }) }
const between: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    do: fc.constant('execute' as const),
    ...ofEngine,
    input: fc.constantFrom(7, 7, 8),
    times: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ do: fc.constantFrom('newProcess' as const, 'bringBackOldValues' as const), ...ofKey }),
)

/** Everything happens once, in some order. */
const commands: fc.Arbitrary<Command[]> = fc
  .tuple(
    fc.shuffledSubarray([...CHANGES, 'hold' as const], { minLength: 3 }),
    fc.array(fc.tuple(fc.record(ofEngine), between), { minLength: 7, maxLength: 7 }),
  )
  .map(([all, beside]) =>
    all.flatMap((each, at): Command[] => {
      const [of, next] = beside[at] ?? []
      return of === undefined || next === undefined ? [] : [{ do: each, ...of }, next]
    }),
  )

/** What it has under a name, new or old, is worse than nonsense. */
const moods = fc.infiniteStream(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.constantFrom<Mood>('honest', 'honest', 'honest', 'old', 'old', 'swapped', 'changed'),
    },
    { weight: 1, arbitrary: fc.constantFrom<Mood>(...MOODS) },
  ),
)

// Shows that a cache costs speed and nothing else, whatever it does.
test('what is answered is what PostgreSQL says, whatever the cache does', () =>
  assertProperty(
    fc.asyncProperty(commands, moods, fc.infiniteStream(fc.nat()), async (given, ofCache, picks) => {
      const trial = new Trial(new MoodyCache(ofCache, () => picks.next().value as number))
      try {
        for (const each of given) await trial.obey(each)
      } finally {
        await trial.end()
      }
    }),
    RUNS,
    'pipelineRuns',
  ).then(() => expect(fromCache).toBeGreaterThan(RUNS)))

/** What PostgreSQL has under a key. */
interface Truth {
  readonly status: string
  readonly input: number
  readonly body: string | null
}

/** A moment, and what PostgreSQL had before it. */
interface Before {
  readonly key: number
  readonly truth: Truth
  readonly until: number
}

let answers = 0

class Trial {
  readonly #cache: MoodyCache
  readonly #scope = `rider-${randomUUID()}`
  readonly #clock = new ServerClock()
  readonly #pool = database.pool({ Client: this.#clock.Client })
  readonly #operator = createOperator({ pool: this.#pool, schema: database.schema })
  readonly #engines: Engine<Database>[]
  /** What changed without a word to the engines. */
  readonly #before: Before[] = []
  #held: { readonly entered: () => void; readonly left: Promise<void> } | null = null
  readonly #pipeline = pipeline<number>({ name: 'answered', version: 1, retentionMs: RETENTION_MS })
    .local('noted', async ({ tx, input }) => {
      await tx
        .insertInto('audit')
        .values({ what: String(input) })
        .execute()
      const held = this.#held
      this.#held = null
      held?.entered()
      await held?.left
    })
    .finish(() => respond(201, { answer: answers++ }))

  constructor(cache: MoodyCache) {
    this.#cache = cache
    this.#engines = engines.map(() => this.#newEngine())
  }

  async obey(given: Command): Promise<void> {
    switch (given.do) {
      case 'execute':
        return this.#execute(given, given.times)
      case 'hold':
        return this.#hold(given.engine, given.key)
      case 'newProcess':
        this.#engines[0] = this.#newEngine()
        return
      case 'bringBackOldValues':
        return this.#cache.bringBackOldValues()
      default:
        await this.#cacheAll()
        await this.#change(given.do, given.key)
        return this.#checkAll()
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.close()))
    await database.rows('DELETE FROM pawl.idempotency_keys')
    await this.#pool.end()
  }

  async #change(change: (typeof CHANGES)[number], key: number): Promise<void> {
    switch (change) {
      case 'forget':
        expect(await this.#operator.forget({ scope: this.#scope, key: nameOf(key) }, because)).toMatchObject({
          type: 'done',
        })
        return
      case 'erase':
        await this.#engine(0).erase({ scope: this.#scope, ...because })
        return
      case 'deleteByHand':
        return this.#withoutAWord(() =>
          database.rows('BEGIN; DELETE FROM pawl.idempotency_keys; DELETE FROM pawl.cache_epoch; COMMIT'),
        )
      case 'expire':
        // Its clock is set, which engines hear of together with the epoch.
        return this.#withoutAWord(() => {
          this.#clock.jump(RETENTION_MS)
          return this.#operator.reap(because)
        })
      case 'failOver':
        // The other server has not heard of what has finished.
        return this.#withoutAWord(() => {
          this.#clock.failOver(0)
          return database.rows('DELETE FROM pawl.idempotency_keys')
        })
      case 'restore': {
        const epoch = await database.rows('SELECT * FROM pawl.cache_epoch')
        return this.#withoutAWord(async () => {
          await database.rows('DELETE FROM pawl.idempotency_keys; DELETE FROM pawl.cache_epoch')
          await database.rows(
            'INSERT INTO pawl.cache_epoch SELECT * FROM json_populate_recordset(NULL::pawl.cache_epoch, $1)',
            [JSON.stringify(epoch)],
          )
        })
      }
    }
  }

  #newEngine(): Engine<Database> {
    return createEngine({
      pool: this.#pool,
      schema: database.schema,
      pipelines: [this.#pipeline],
      cache: this.#cache,
      afterExpiry: 'run',
    })
  }

  #engine(number: number): Engine<Database> {
    const engine = this.#engines[number]
    if (engine === undefined) throw new Error(`there is no engine ${number}`)
    return engine
  }

  /** Requests for different keys are alike, so that only the key tells their answers apart. */
  #ask({ engine, key, input }: Asked): Promise<Outcome> {
    return this.#engine(engine).execute(this.#pipeline, { scope: this.#scope, key: nameOf(key), input })
  }

  async #execute(asked: Asked, times = 1): Promise<void> {
    const before = await this.#truth(asked.key)
    const askedAt = performance.now()
    const outcomes = await Promise.all(Array.from({ length: times }, () => this.#ask(asked)))
    const after = await this.#truth(asked.key)
    const runs = outcomes.filter(({ type }) => type === 'completed').length
    if (runs > (before === null ? 1 : 0))
      throw new Error(`a key that was ${JSON.stringify(before)} ran ${runs} times`)
    const ran = { status: 'running', input: asked.input, body: null }
    // One of them ran it, and the others have met it.
    if (runs > 0) this.#before.push({ key: asked.key, truth: ran, until: performance.now() })
    for (const outcome of outcomes) this.#judge(outcome, asked, [before, after], askedAt)
  }

  /** A request that is held, duplicates of it, and what is told of it when it has finished. */
  async #hold(engine: number, key: number): Promise<void> {
    if ((await this.#truth(key)) !== null) return
    const [inside, go] = [gate(), gate()]
    this.#held = { entered: inside.open, left: go.opened }
    const first = this.#ask({ engine, key, input: 7 })
    const entered = inside.opened.then(() => true)
    try {
      // It may be told what was there a moment ago.
      if (!(await Promise.race([entered, first.then(() => false)]))) return
      await this.#cacheAll()
      await this.#withoutAWord(async () => {
        go.open()
        expect(await first).toMatchObject({ type: 'completed' })
      })
      await this.#checkAll()
    } finally {
      this.#held = null
      go.open()
    }
  }

  /** Makes sure that every engine and the cache know everything there is to know. */
  async #cacheAll(): Promise<void> {
    this.#cache.isHonest = true
    for (let times = 0; times < 2; times++)
      for (const engine of engines) for (const key of keys) await this.#execute({ engine, key, input: 7 })
    this.#cache.isHonest = false
  }

  /** Asks for all that there was, of engines that are at work, until they must have heard of what has changed. */
  async #checkAll(): Promise<void> {
    const until = Math.max(0, ...this.#before.map((before) => before.until)) + HEARS_WITHIN_MS
    let isLast: boolean
    do {
      isLast = performance.now() > until
      for (const engine of engines) for (const key of keys) await this.#execute({ engine, key, input: 7 })
    } while (!isLast)
  }

  async #withoutAWord(change: () => Promise<unknown>): Promise<void> {
    const truths = await Promise.all(keys.map((key) => this.#truth(key)))
    await change()
    const until = performance.now()
    for (const [key, truth] of truths.entries()) if (truth !== null) this.#before.push({ key, truth, until })
  }

  #judge(outcome: Outcome, { key, input }: Asked, saw: readonly (Truth | null)[], askedAt: number): void {
    const excused = this.#before.filter(
      (before) => before.key === key && askedAt - before.until <= HEARS_WITHIN_MS,
    )
    const sawOrHadSeen = [...saw, ...excused.map(({ truth }) => truth)]
    if (sawOrHadSeen.some((truth) => truth !== null && isTrue(outcome, truth, input))) return
    throw new Error(`${saw.map((truth) => JSON.stringify(truth)).join(', then ')}: ${shown(outcome)}`)
  }

  async #truth(key: number): Promise<Truth | null> {
    const [row] = await database.rows<Truth>(
      `SELECT status, input::text::int AS input, convert_from(response_body, 'UTF8') AS body
         FROM pawl.idempotency_keys WHERE scope = $1 AND key = $2`,
      [this.#scope, nameOf(key)],
    )
    return row ?? null
  }
}

function isTrue(outcome: Outcome, { status, input, body }: Truth, asked: number): boolean {
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return input === asked && body === outcome.response.body.toString()
    case 'in_flight':
      return input === asked && status === 'running'
    case 'mismatch':
      return input !== asked
    default:
      return false
  }
}

const nameOf = (key: number): string => `request-no-${key}`
const shown = (outcome: Outcome): string =>
  'response' in outcome && outcome.response !== null
    ? `${outcome.type} ${outcome.response.body.toString()}`
    : JSON.stringify(outcome)
