import { randomUUID } from 'node:crypto'
import { executeFound, lookAtKey } from '@pawl/core/internal'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { TopScopes } from '../../packages/opentelemetry/src/metrics/top-scopes.js'
import { createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { EverythingTrial } from './everything.js'
import { Exported } from './exported.js'

const reported = (top: TopScopes) =>
  top
    .report()
    .filter(({ count }) => count > 0)
    .map(({ scope, duplicate, count }) => `${scope} ${duplicate} ${count}`)

describe('of an interval', () => {
  let now = 0
  const scopes = (top: number) => {
    now = 0
    return new TopScopes(top, 1_000, () => now)
  }
  test('the scopes with the most duplicates are reported once it is over, and the rest as one', () => {
    const top = scopes(2)
    for (const [scope, times] of Object.entries({ a: 1, b: 5, c: 3, d: 2 }))
      for (let time = 0; time < times; time++) top.add(scope, time % 2 === 0 ? 'replayed' : 'mismatch')
    expect(reported(top)).toEqual([])
    now = 1_000
    const wanted = [
      'b replayed 3',
      'b mismatch 2',
      'c replayed 2',
      'c mismatch 1',
      'other replayed 2',
      'other mismatch 1',
    ]
    expect(reported(top)).toEqual(wanted)
    // However often somebody asks.
    expect(reported(top)).toEqual(wanted)
    now = 2_000
    expect(reported(top)).toEqual([])
  })

  test('what came before a silence is not reported after it', () => {
    const top = scopes(2)
    top.add('a', 'replayed')
    now = 5_000
    expect(reported(top)).toEqual([])
  })

  test.each([0, 1, 10])('a hundred thousand scopes are %i and the rest, and none is lost', (most) => {
    const top = scopes(most)
    for (let scope = 0; scope < 100_000; scope++) top.add(`s${scope}`, 'in_flight')
    for (let times = 0; times < 9; times++) top.add('s7', 'in_flight')
    now = 1_000
    const report = top.report()
    expect(report).toHaveLength((most + 1) * 3)
    expect(report.reduce((sum, { count }) => sum + count, 0)).toBe(100_009)
    if (most > 0) expect(report.find(({ scope }) => scope === 's7')).toMatchObject({ scope: 's7' })
  })

  test('a scope that is called as the rest is, or as what every object has, is one of many', () => {
    const top = scopes(5)
    for (const scope of ['__proto__', 'constructor', 'other']) top.add(scope, 'replayed')
    now = 1_000
    expect(reported(top)).toEqual(['__proto__ replayed 1', 'constructor replayed 1', 'other replayed 1'])
  })
})

describe('exported', () => {
  let database: TestDatabase
  let exported: Exported
  let trial: EverythingTrial

  beforeEach(async () => {
    database = await TestDatabase.create()
    await createRideTables(database)
    exported = await Exported.start()
    trial = new EverythingTrial(database, exported)
  })
  afterEach(async () => {
    await exported.stop()
    await database.drop()
  })

  test('a duplicate that waited for its key is one, and so is a request that is enqueued again', async () => {
    const add = vi.spyOn(TopScopes.prototype, 'add')
    onTestFinished(() => add.mockRestore())
    const engine = trial.engine()
    const request = { scope: 'tenant', key: randomUUID(), input: { amount: 1 } }
    await trial.provider.willMeet('hold_then_execute')
    const running = engine.execute(trial.ride, request)
    await trial.provider.arrived()
    await engine.execute(trial.ride, request)
    await trial.provider.letGo()
    await running
    const look = await lookAtKey(engine, request.scope, request.key)
    if (look.type !== 'answered') throw new Error(look.type)
    expect(await executeFound(engine, trial.ride, request, look.row)).toMatchObject({ type: 'replayed' })
    expect(add.mock.calls.map(([, duplicate]) => duplicate)).toEqual(['in_flight'])

    const later = { ...request, key: randomUUID() }
    for (let times = 0; times < 2; times++) await engine.enqueue(trial.ride, later)
    expect(add.mock.calls.map(([, duplicate]) => duplicate)).toEqual(['in_flight', 'in_flight'])
  })

  test.each([
    ['quotes and line breaks', 'a"} 1\npawl_requests_total{pawl_outcome="stuck"} 99\n#'],
    ['markup', '<script>alert(1)</script>'],
    ['control characters', 'a\u0001\u001b[31mb\u2028\u202e'],
    ['a name of the rest', 'other'],
    ['a name that every object has', '__proto__'],
    ['as many characters of four bytes as a scope may have', '𝒳'.repeat(127)],
  ])('a scope that is hostile text is a hash: %s', async (_what, scope) => {
    const engine = trial.engine()
    const key = randomUUID()
    const request = { scope, key, input: { amount: 1 } }
    // Until an interval is over, as a client that repeats itself would.
    await expect
      .poll(
        async () => {
          await engine.execute(trial.ride, request)
          return exported.sum('pawl_scope_duplicates', { pawl_duplicate: 'replayed' })
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThan(0)
    const samples = await exported.samples()
    const hashes = samples.filter(({ name }) => name === 'pawl_scope_duplicates')
    for (const { labels } of hashes) expect(labels['pawl_scope_hash']).toMatch(/^(?:[\da-f]{16}|other)$/)
    const text = await exported.text()
    expect(text).not.toContain(key)
    if (scope.length > 9) expect(text).not.toContain(scope)
    expect(
      samples.find(({ labels, value }) => labels['pawl_outcome'] === 'stuck' && value !== 0),
    ).toBeUndefined()
  })
})
