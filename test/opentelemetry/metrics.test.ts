import { randomUUID } from 'node:crypto'
import { createOperator } from '@pawl/core'
import { instrument } from '@pawl/opentelemetry'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { metricList } from '../../packages/opentelemetry/src/metrics/metric-table.js'
import { prometheusLabel, prometheusNames } from '../../packages/opentelemetry/src/ready/prometheus-names.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { EverythingTrial } from './everything.js'
import { Exported } from './exported.js'

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

test('what a run with every kind of fault exports is what the table says, name by name and label by label', async () => {
  const operator = createOperator({ pool: database.pool(), schema: database.schema })
  const engine = trial.engine(trial.options(), operator)
  await trial.everything(engine)

  const samples = await exported.samples()
  const labels = new Map<string, Set<string>>()
  for (const sample of samples) {
    const known = labels.get(sample.name) ?? new Set()
    for (const label of Object.keys(sample.labels)) known.add(label)
    labels.set(sample.name, known)
  }
  labels.delete('target_info')
  const expected = metricList.flatMap((metric) =>
    prometheusNames(metric.name, 'exporter').map((name) => [
      name,
      [...metric.attributes.map(prometheusLabel), ...(name.endsWith('_bucket') ? ['le'] : [])].toSorted(),
    ]),
  )
  const emitted = [...labels].map(([name, of]) => [name, [...of].toSorted()])
  expect(Object.fromEntries(emitted)).toEqual(Object.fromEntries(expected))
})

test('each outcome of a request is counted once, under its pipeline', async () => {
  const engine = trial.engine()
  await trial.duplicates(engine)
  for (const [outcome, count] of Object.entries({
    completed: 1,
    replayed: 1,
    in_flight: 1,
    mismatch: 1,
    stuck: 0,
  })) {
    const labels = { pawl_pipeline: 'create-ride', pawl_outcome: outcome }
    expect(await exported.sum('pawl_requests_total', labels), outcome).toBe(count)
  }
  expect(await exported.sum('pawl_request_duration_count')).toBe(4)
  expect(await exported.sum('pawl_replays_total', { pawl_replay_from: 'primary' })).toBe(1)
  expect(await exported.sum('pawl_call_duration_count', { pawl_call_result: 'returned' })).toBe(1)
  expect(await exported.sum('pawl_phase_duration_count', { pawl_phase: 'charge_created' })).toBe(1)
})

test('a request that a limit has refused is counted as that', async () => {
  await trial.limited()
  expect(await exported.sum('pawl_requests_total', { pawl_outcome: 'limited' })).toBe(1)
})

test('two engines with one meter provider are counted once each, and what channels report once', async () => {
  const [one, two] = [trial.engine(), trial.engine()]
  await trial.retry(one)
  await trial.retry(two)
  expect(await exported.sum('pawl_takeovers_total')).toBe(2)
  expect(await exported.sum('pawl_phase_failures_total')).toBe(2)
  expect(await exported.sum('pawl_requests_total', { pawl_outcome: 'completed' })).toBe(2)
})

test('of two databases with one meter provider, the higher number counts: a quiet one hides nothing', async () => {
  const quiet = await TestDatabase.create()
  onTestFinished(() => quiet.drop())
  for (const key of ['k1', 'k2']) await seedKey(database, { key, status: 'stuck' })
  await seedKey(quiet, { key: 'k1', status: 'stuck' })
  // Whatever the quiet one has to say comes last.
  for (const { pool, schema } of [database, quiet].map((each) => ({
    pool: each.pool(),
    schema: each.schema,
  })))
    trial.instrumented(
      createEngine({ pool, schema, pipelines: [trial.ride] }),
      createOperator({ pool, schema }),
    )
  expect(await exported.sum('pawl_keys_stuck')).toBe(2)
})

test('of two engines with one meter provider, the one that gets no duplicates does not hide those of the other', async () => {
  const [busy] = [0, 1].map(() => {
    const engine = createEngine(trial.options())
    const of = { engine, meterProvider: exported.provider, duplicatesEveryMs: 100, topScopes: 0 }
    const { stop } = instrument(of)
    onTestFinished(async () => {
      stop()
      await engine.close()
    })
    return engine
  })
  const key = randomUUID()
  await expect
    .poll(
      async () => {
        if (busy !== undefined) await trial.execute(busy, trial.ride, key)
        return exported.sum('pawl_scope_duplicates', { pawl_duplicate: 'replayed' })
      },
      { timeout: 20_000 },
    )
    .toBeGreaterThan(0)
})

test('numbers that nobody can read anew are as old as they are, whoever asks for them', async () => {
  const operators = [0, 1].map(() => createOperator({ pool: database.pool(), schema: database.schema }))
  for (const operator of operators) await operator.reading({ everyMs: 1_000 })
  await database.rows(`
    UPDATE pawl.readings SET taken_at = clock_timestamp(),
           reading = jsonb_set(reading::jsonb, '{at}', to_jsonb(clock_timestamp() - interval '1 hour'))::json`)
  trial.engine(trial.options(), operators[1])
  expect(await exported.sum('pawl_reading_age')).toBeGreaterThan(3_599)
  const names = (await exported.samples()).map(({ name }) => name)
  expect(names).not.toContain('pawl_jobs')
})

test('an engine that is instrumented again after a stop is counted once', async () => {
  const engine = createEngine(trial.options())
  instrument({ engine, meterProvider: exported.provider }).stop()
  trial.instrumented(engine)
  await trial.retry(engine)
  expect(await exported.sum('pawl_takeovers_total')).toBe(1)
  expect(await exported.sum('pawl_requests_total', { pawl_outcome: 'completed' })).toBe(1)
})

test('an engine that is refused leaves nothing behind', async () => {
  const engine = trial.engine()
  expect(() => instrument({ engine, meterProvider: exported.provider })).toThrow(/traced already/)
  await trial.retry(engine)
  expect(await exported.sum('pawl_takeovers_total')).toBe(1)
})

test('outcomes that did not happen are exported as 0, so that the first one is an increase', async () => {
  await trial.execute(trial.engine())
  const samples = (await exported.samples()).filter(({ name }) => name === 'pawl_requests_total')
  expect(samples.find(({ labels }) => labels['pawl_outcome'] === 'unavailable')?.value).toBe(0)
})
