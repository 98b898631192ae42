import { randomUUID } from 'node:crypto'
import type { Delivery, JobToDeliver, RelayOptions, Sink } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { counts, DELIVERED, RelayTrial } from '../support/relay-trial.js'
import { heard } from '../support/heard.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let trial: RelayTrial
beforeEach(async () => {
  trial = new RelayTrial(await TestDatabase.create())
})
afterEach(() => trial.end())

const AN_HOUR_MS = 3_600_000

/** So late that everything else comes first. */
const LATE = 1_000_000

/**
 * Writes due jobs of a scope, which is also their name, each due a millisecond after the one before it. Suspect ones are such that
 * their deliveries never ended.
 */
async function write(
  scope: string,
  count: number,
  { from = 0, keyId = null as string | null, areSuspect = false } = {},
): Promise<void> {
  await trial.database.rows(
    `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, run_after, attempts, claim, claim_until)
     SELECT gen_random_uuid(), $1, n, $1, to_json(n), coalesce($4::uuid, gen_random_uuid()),
            clock_timestamp() - interval '1 hour' + ($3 + n) * interval '1 ms',
            CASE WHEN $5 THEN 3 ELSE 0 END,
            CASE WHEN $5 THEN gen_random_uuid() END,
            CASE WHEN $5 THEN clock_timestamp() END
       FROM generate_series(1, $2) AS n`,
    [scope, count, from, keyId, areSuspect],
  )
}

/** Keeps whose jobs each delivery had. Those of scopes that hang do not end before they are let go. */
class Calls implements Sink {
  readonly calls: string[][] = []
  readonly #answer: (job: JobToDeliver) => Delivery
  readonly #hanging: ReadonlySet<string>
  readonly letGo = gate()
  #awaited: { readonly of: string; readonly count: number; readonly open: () => void }[] = []

  constructor(hanging: readonly string[] = [], answer: (job: JobToDeliver) => Delivery = () => DELIVERED) {
    this.#hanging = new Set(hanging)
    this.#answer = answer
  }

  async deliver(jobs: readonly JobToDeliver[], { signal }: { signal: AbortSignal }): Promise<Delivery[]> {
    const names = jobs.map(({ name }) => name)
    this.calls.push(names)
    for (const { of, count, open } of this.#awaited) if (this.countOf(of) >= count) open()
    const aborted = gate()
    signal.addEventListener('abort', aborted.open)
    if (names.some((name) => this.#hanging.has(name))) await Promise.race([this.letGo.opened, aborted.opened])
    return jobs.map((job) => this.#answer(job))
  }

  countOf(scope: string): number {
    return this.calls.flat().filter((name) => name === scope).length
  }

  /** Resolves when so many jobs of a scope have arrived. */
  async arrived(of: string, count = 1): Promise<void> {
    if (this.countOf(of) >= count) return
    const { opened, open } = gate()
    this.#awaited.push({ of, count, open })
    await opened
  }
}

const started = (sink: Sink, options: Partial<RelayOptions> = {}) => {
  const relay = trial.relay({ sink, pollMs: 1, ...options })
  relay.start()
  return relay
}

describe('scopes take turns', () => {
  test('so that those with few jobs wait for no more of a scope with many', async () => {
    await write('many', 300)
    await write('few', 3, { from: LATE })
    await write('one', 1, { from: LATE })
    const sink = new Calls()
    expect(await trial.relay({ sink }).runOnce()).toEqual(counts({ claimed: 100, delivered: 100 }))
    expect([sink.countOf('few'), sink.countOf('one')]).toEqual([3, 1])
  })

  test('and each delivery has jobs of one scope', async () => {
    for (const scope of ['a', 'b', 'c']) await write(scope, 3)
    const sink = new Calls()
    await trial.relay({ sink }).runOnce()
    expect(sink.calls.map(String).toSorted()).toEqual(
      ['a', 'b', 'c'].map((scope) => `${scope},${scope},${scope}`),
    )
  })

  test('or of several, where mixScopes says so', async () => {
    for (const scope of ['a', 'b', 'c']) await write(scope, 1)
    const sink = new Calls()
    await trial.relay({ sink, mixScopes: true }).runOnce()
    expect(sink.calls.map((names) => names.toSorted())).toEqual([['a', 'b', 'c']])
  })

  test.each([10, 1])(
    'also when one has far more in front of the others than a claim looks at, with %i places',
    async (concurrency) => {
      await write('many', 20_000)
      await write('one', 1, { from: LATE })
      const sink = new Calls()
      const relay = trial.relay({ sink, batchSize: 10, concurrency })
      await relay.runOnce()
      await relay.runOnce()
      expect(sink.countOf('one')).toBe(1)
      expect(sink.countOf('many')).toBeLessThanOrEqual(20)
      // The others' turn is over: it goes on.
      expect(await relay.runOnce()).toMatchObject({ claimed: 10 })
    },
  )

  test.each([
    [1, 2, 20],
    [1, 2, 2_000],
    [3, 7, 2_000],
  ])(
    'until each had one, with %i places, where %i have %i jobs each in front of the others',
    async (concurrency, many, count) => {
      const busy = Array.from({ length: many }, (_, nth) => `many ${nth}`)
      for (const scope of busy) await write(scope, count)
      await write('one', 1, { from: LATE })
      const sink = new Calls()
      const relay = trial.relay({ sink, batchSize: 3, concurrency })
      while (sink.countOf('one') === 0) await relay.runOnce()
      const turns = sink.calls.map(([scope]) => scope)
      expect(new Set(turns)).toEqual(new Set([...busy, 'one']))
      expect(turns.length).toBeLessThanOrEqual(many + concurrency)
    },
    10_000,
  )

  test('also where a look at further scopes goes on in the middle, and they are before that', async () => {
    await write('many', 2_000)
    for (const scope of ['a', 'b']) await write(scope, 1, { from: LATE })
    const sink = new Calls()
    const relay = trial.relay({ sink, batchSize: 1, concurrency: 1 })
    for (let nth = 0; nth < 4; nth++) await relay.runOnce()
    expect(sink.calls.flat()).toEqual(['many', 'a', 'b', 'many'])
  })

  test('also when one has far more that wait for an earlier job of their key', async () => {
    await write('many', 20_000, { keyId: randomUUID() })
    await write('one', 1, { from: LATE })
    const sink = new Calls()
    await trial.relay({ sink }).runOnce()
    expect(sink.calls.map(String).toSorted()).toEqual(['many', 'one'])
  })
})

describe('a scope whose jobs hang', () => {
  test('holds its own places, and the jobs of others are delivered', async () => {
    await write('slow', 40)
    const sink = new Calls(['slow'])
    started(sink, { batchSize: 4 })
    await sink.arrived('slow')
    for (let nth = 0; nth < 5; nth++) {
      await write('quick', 1)
      await sink.arrived('quick', nth + 1)
    }
    expect(sink.countOf('slow')).toBe(4)
  })

  test('with far more jobs than a claim looks at keeps nobody from being found', async () => {
    await write('slow', 20_000)
    const sink = new Calls(['slow'])
    started(sink)
    await sink.arrived('slow')
    await write('quick', 5, { from: LATE })
    await sink.arrived('quick', 5)
    expect(sink.countOf('slow')).toBe(100)
  })

  test('does so with two relays, and with a pool of one connection', async () => {
    await write('slow', 40)
    const sink = new Calls(['slow'])
    const pools = [trial.database.pool({ max: 1 }), trial.database.pool({ max: 1 })]
    for (const pool of pools) trial.relay({ sink, pollMs: 1, batchSize: 4 }, { pool }).start()
    await sink.arrived('slow', 8)
    await write('quick', 5)
    await sink.arrived('quick', 5)
    expect(sink.countOf('slow')).toBe(8)
  })

  test('leaves its other places if it may have several', async () => {
    await write('slow', 40)
    const sink = new Calls(['slow'])
    started(sink, { batchSize: 1, concurrency: 3, concurrencyPerScope: 2 })
    await sink.arrived('slow', 2)
    await write('quick', 5)
    await sink.arrived('quick', 5)
    expect(sink.countOf('slow')).toBe(2)
  })
})

/** The two jobs of the scope `quick`. */
const quick = () =>
  trial.database.rows(
    `SELECT seq, run_after, attempts, last_error, claim_until IS NOT NULL AS is_claimed FROM pawl.staged_jobs
      WHERE scope = 'quick' ORDER BY seq`,
  )

/** Two scopes hang in both places, and a third one has two jobs of one key behind them. */
async function allHang(options: Partial<RelayOptions> = {}) {
  for (const scope of ['slow', 'slower']) await write(scope, 1)
  await write('quick', 2, { from: LATE, keyId: randomUUID() })
  const before = await quick()
  const sink = new Calls(['slow', 'slower'])
  const relay = started(sink, { concurrency: 2, pollMs: AN_HOUR_MS, ...options })
  await sink.arrived('slow')
  return { before, sink, relay }
}

describe('jobs that were claimed and find all places taken', () => {
  test('are given back soon, as they were, and another relay delivers them in their order', async () => {
    const { before } = await allHang()
    const claimed = before.map((job, nth) => ({ ...job, is_claimed: nth === 0, attempts: nth === 0 ? 1 : 0 }))
    expect(await quick()).toEqual(claimed)
    const got: unknown[] = []
    const other = new Calls([], ({ payload, attempt }) => {
      got.push([payload, attempt])
      return DELIVERED
    })
    started(other)
    await other.arrived('quick', 2)
    expect(got).toEqual([
      [1, 1],
      [2, 1],
    ])
  })

  test('are given back by a stop at once, as they were, and count as not claimed', async () => {
    const { before, relay } = await allHang()
    const rounds = hear('pawl:round')
    const ended = heard('pawl:round')
    await relay.stop({ timeoutMs: 0 })
    await ended
    expect(rounds).toEqual([{ service: 'relay', counts: counts({ claimed: 2, delivered: 2 }) }])
    expect(await quick()).toEqual(before)
  })

  test('are delivered by the next place that becomes free', async () => {
    const { sink } = await allHang()
    sink.letGo.open()
    await sink.arrived('quick', 2)
  })

  test('are given back before their own time to be delivered is over, also where that is short', async () => {
    const { sink } = await allHang({ deliverTimeoutMs: 400 })
    await sink.arrived('quick', 2)
  })

  test('are none where one scope may have all places', async () => {
    const { before } = await allHang({ concurrency: 1 })
    expect(await quick()).toEqual(before)
  })
})

test('no more deliveries are under way than concurrency allows', async () => {
  const scopes = ['a', 'b', 'c', 'd', 'e']
  for (const scope of scopes) await write(scope, 1)
  const sink = new Calls(scopes)
  started(sink, { concurrency: 3 })
  await sink.arrived('c')
  expect(sink.calls).toHaveLength(3)
  sink.letGo.open()
  await Promise.all(scopes.map((scope) => sink.arrived(scope)))
})

test('a scope whose jobs make the sink throw takes no job of another with it', async () => {
  await write('bad', 20)
  await write('good', 5, { from: LATE })
  const sink = new Calls([], ({ name }) => {
    if (name === 'bad') throw new Error('cannot serialise')
    return DELIVERED
  })
  expect(await trial.relay({ sink }).runOnce()).toEqual(counts({ claimed: 25, delivered: 5, failed: 20 }))
})

describe('jobs whose deliveries never ended', () => {
  test('take turns with those of others', async () => {
    await write('killer', 5, { areSuspect: true })
    await write('good', 5, { from: LATE })
    const sink = new Calls()
    const relay = trial.relay({ sink })
    await relay.runOnce()
    await relay.runOnce()
    expect(sink.calls).toEqual([['killer'], ['good', 'good', 'good', 'good', 'good']])
    for (let left = 4; left > 0; left--) expect(await relay.runOnce()).toMatchObject({ claimed: 1 })
  })

  test('are delivered while nothing else is, and nothing else while they are', async () => {
    await write('slow', 1)
    const sink = new Calls(['slow', 'killer'])
    started(sink)
    await sink.arrived('slow')
    await write('killer', 1, { areSuspect: true })
    await write('good', 1, { from: LATE })
    await sink.arrived('good')
    expect(sink.countOf('killer')).toBe(0)
    await trial.database.rows(`DELETE FROM pawl.staged_jobs WHERE scope = 'good'`)
    sink.letGo.open()
    await sink.arrived('killer')
  })
})

test.each([
  [{ concurrency: 0 }, 'relay: concurrency is 0'],
  [{ concurrency: 2, concurrencyPerScope: 3 }, 'relay: concurrencyPerScope is 3'],
  [{ mixScopes: 'yes' }, "relay: mixScopes is 'yes'"],
])('%j is refused', (options, message) => {
  expect(() => trial.relay({ sink: new Calls(), ...(options as object) })).toThrow(message)
})
