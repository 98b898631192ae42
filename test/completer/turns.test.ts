import { type CompleterOptions, type Engine, respond, retryLater } from '@pawl/core'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { completerOf, NEVER_MS } from '../support/completer-trial.js'
import { heard } from '../support/heard.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
// Every test sees the whole table, since a completer takes what it finds.
beforeEach(() => database.rows('DELETE FROM pawl.idempotency_keys'))

/** Requests of tenants; those of a tenant that hangs do not end before they are let go. */
class Tenants {
  /** Whose requests were begun, in their order. */
  readonly begun: string[] = []
  readonly #awaited: { readonly of: string; readonly count: number; readonly open: () => void }[] = []
  readonly #letGo = gate()
  readonly #hanging: ReadonlySet<string>
  readonly #failing: ReadonlySet<string>
  readonly pipeline = pipeline<RideInput>({ name: 'turns', version: 1 })
    .foreign('asked', {
      call: async ({ scope }) => {
        this.begun.push(scope)
        for (const { of, count, open } of this.#awaited) if (this.countOf(of) >= count) open()
        if (this.#hanging.has(scope)) await this.#letGo.opened
        return {}
      },
    })
    .finish(({ scope }) => (this.#failing.has(scope) ? retryLater() : respond(200)))

  constructor({ hanging = [], failing = [] }: { hanging?: string[]; failing?: string[] } = {}) {
    this.#hanging = new Set(hanging)
    this.#failing = new Set(failing)
  }

  /** Starts a completer. When the test ends, what hangs is let go first. */
  start(options: CompleterOptions = {}, engine = this.engine()): void {
    completerOf(engine, { pollMs: 1, ...options }).start()
    onTestFinished(() => this.#letGo.open())
  }

  engine(max = 10): Engine<Database> {
    const options = { pool: database.pool({ max }), schema: database.schema, pipelines: [this.pipeline] }
    return createEngine(options)
  }

  countOf(scope: string): number {
    return this.begun.filter((begun) => begun === scope).length
  }

  /** Resolves when so many requests of a tenant have begun. */
  async began(of: string, count = 1): Promise<void> {
    if (this.countOf(of) >= count) return
    const { opened, open } = gate()
    this.#awaited.push({ of, count, open })
    await opened
  }

  /** Writes unattended keys, each created a millisecond after the one before it. `rest`: not due for an hour. */
  async write(scope: string, count: number, { rest = false, from = 0 } = {}): Promise<void> {
    await database.rows(
      `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
                                          input, holder, created_at, run_after)
       SELECT $1, n::text, 'turns', 1, $2, sha256(''), 1, '{"amount":1}', gen_random_uuid(),
              clock_timestamp() - interval '1 hour' + ($4 + n) * interval '1 ms',
              CASE WHEN $5 THEN clock_timestamp() + interval '1 hour' END
         FROM generate_series(1, $3) AS n`,
      [scope, this.pipeline.definitionHash, count, from, rest],
    )
  }
}

/** So late that everything else comes first, in order of creation. */
const LATE = 1_000_000

describe('scopes take turns', () => {
  test('without a pause also where more of them have something than it has room for', async () => {
    const tenants = new Tenants()
    const scopes = Array.from({ length: 25 }, (_, nth) => `tenant ${nth}`)
    for (const scope of scopes) await tenants.write(scope, 1)
    tenants.start({ pollMs: NEVER_MS, batchSize: 10, concurrency: 2 })
    await Promise.all(scopes.map((scope) => tenants.began(scope)))
    expect(tenants.begun.toSorted()).toEqual(scopes.toSorted())
  }, 10_000)

  test('so that those with few keys wait for one of a scope with many', async () => {
    const tenants = new Tenants()
    await tenants.write('many', 300)
    await tenants.write('few', 3, { from: LATE })
    await tenants.write('one', 1, { from: LATE })
    await completerOf(tenants.engine(), { concurrency: 1 }).runOnce()
    expect(tenants.begun).toHaveLength(100)
    expect(tenants.begun.slice(0, 3).toSorted()).toEqual(['few', 'many', 'one'])
    expect(tenants.begun.slice(0, 7).filter((scope) => scope === 'few')).toHaveLength(3)
  })

  test('within a scope, the oldest are found first', async () => {
    const tenants = new Tenants()
    await tenants.write('many', 300)
    await completerOf(tenants.engine(), { batchSize: 50 }).runOnce()
    const [row] = await database.rows(
      `SELECT count(*)::int AS finished, max(key::int) AS last FROM pawl.idempotency_keys WHERE status = 'finished'`,
    )
    expect(row).toEqual({ finished: 50, last: 50 })
  })

  test('also when one has far more in front of the others than a look reads', async () => {
    const tenants = new Tenants()
    await tenants.write('many', 20_000)
    await tenants.write('one', 1, { from: LATE })
    const completer = completerOf(tenants.engine(), { concurrency: 1 })
    await completer.runOnce()
    expect(tenants.begun.indexOf('one')).toBeLessThanOrEqual(1)
    expect(tenants.begun).toContain('one')
  })

  test('also when one has far more that rests, and is not due', async () => {
    const tenants = new Tenants()
    await tenants.write('many', 20_000, { rest: true })
    await tenants.write('one', 1, { from: LATE })
    await completerOf(tenants.engine()).runOnce()
    expect(tenants.begun).toEqual(['one'])
  })

  test('and what a scope has behind very many keys that rest has its turn as well', async () => {
    const tenants = new Tenants()
    await tenants.write('many', 12_000, { rest: true })
    await tenants.write('other', 12_000, { rest: true })
    await database.rows(`UPDATE pawl.idempotency_keys SET run_after = NULL WHERE key = '12000'`)
    const completer = completerOf(tenants.engine())
    // Each pass goes on where the last one left off.
    for (let pass = 0; pass < 4; pass++) await completer.runOnce()
    expect(tenants.begun.toSorted()).toEqual(['many', 'other'])
  })
})

describe('a scope whose requests hang', () => {
  test('leaves half of the places to the others, whose requests begin at once', async () => {
    const tenants = new Tenants({ hanging: ['slow'] })
    await tenants.write('slow', 60)
    tenants.start({ concurrency: 4 })
    await tenants.began('slow', 2)
    await tenants.write('quick', 20)
    await tenants.began('quick', 20)
    expect(tenants.countOf('slow')).toBe(2)
  })

  test('with far more keys than a look reads keeps nobody from being found', async () => {
    const tenants = new Tenants({ hanging: ['slow'] })
    await tenants.write('slow', 20_000)
    tenants.start({})
    await tenants.began('slow', 2)
    await tenants.write('quick', 5, { from: LATE })
    await tenants.began('quick', 5)
    expect(tenants.countOf('slow')).toBe(2)
  })

  test('does so whatever the size of a batch', async () => {
    const tenants = new Tenants({ hanging: ['slow'] })
    await tenants.write('slow', 20)
    tenants.start({ batchSize: 1, concurrency: 2 })
    await tenants.began('slow')
    await tenants.write('quick', 5)
    await tenants.began('quick', 5)
    expect(tenants.countOf('slow')).toBe(1)
  })

  test('holds no more than its places of each process', async () => {
    const tenants = new Tenants({ hanging: ['slow'] })
    await tenants.write('slow', 60)
    for (let process = 0; process < 2; process++) tenants.start({ concurrency: 2 })
    await tenants.began('slow', 2)
    await tenants.write('quick', 20)
    await tenants.began('quick', 20)
    expect(tenants.countOf('slow')).toBe(2)
  })

  test('with a pool of one connection, too', async () => {
    const tenants = new Tenants({ hanging: ['slow'] })
    await tenants.write('slow', 10)
    tenants.start({}, tenants.engine(1))
    await tenants.began('slow', 2)
    await tenants.write('quick', 5)
    await tenants.began('quick', 5)
  })

  test('is found again when its places are free, without waiting for the next look', async () => {
    const tenants = new Tenants()
    await tenants.write('many', 300)
    const ended = heard('pawl:finished', 300)
    tenants.start({ batchSize: 7, pollMs: NEVER_MS })
    await ended
  })
})

describe('a scope whose requests fail at once', () => {
  test('has no more turns than another one', async () => {
    const tenants = new Tenants({ failing: ['bad'] })
    await tenants.write('bad', 5_500)
    await tenants.write('good', 30, { from: LATE })
    tenants.start({})
    await tenants.began('good', 30)
    expect(tenants.begun.lastIndexOf('good')).toBeLessThanOrEqual(2 * 30 + 100)
  })
})

test('concurrencyPerScope takes no more than concurrency', () => {
  const engine = new Tenants().engine()
  expect(() => completerOf(engine, { concurrency: 2, concurrencyPerScope: 3 })).toThrow(
    'completer: concurrencyPerScope is 3',
  )
})
