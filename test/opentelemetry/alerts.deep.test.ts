import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import {
  type Background,
  createBackground,
  createOperator,
  deliverEach,
  type Engine,
  respond,
} from '@pawl/core'
import { instrument } from '@pawl/opentelemetry'
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { alertRules } from '../../packages/opentelemetry/src/ready/alert-rules.js'
import { type Alert, ALERTS } from '../../packages/opentelemetry/src/ready/alert-table.js'
import { describeOnPrometheus, PrometheusServer } from '../support/prometheus-server.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { RideTrial } from '../support/ride-trial.js'
import { TestDatabase } from '../support/test-database.js'
import { EverythingTrial } from './everything.js'
import { Exported } from './exported.js'

/** It fires as soon as Prometheus knows the rounds of a completer: only then is silence news. */
const COMPLETER_WORKS: Alert = {
  name: 'CompleterWorks',
  severity: 'warning',
  windowS: 3,
  forS: 0,
  threshold: 0,
  by: [],
  metrics: [],
  expr: ({ increase }, { windowS }) =>
    `sum(${increase('pawl.round.duration', windowS, { 'pawl.service': 'completer' })}) > 0`,
  summary: 'It works.',
  description: 'It works.',
}

/** Nobody waits for minutes in a test: the same expressions, with short times and low thresholds. */
function hasty({ name, windowS }: Alert) {
  const thresholds: Readonly<Record<string, number>> = {
    PawlDuplicatesOfTenant: 3,
    PawlMismatches: 0.01,
    PawlReadingsStale: 2,
  }
  return { windowS: windowS === 0 ? 0 : 3, forS: 0, threshold: thresholds[name] ?? 0 }
}

/** Repeats something until the test ends, as clients do. */
function again(act: () => Promise<unknown>): void {
  const over = new AbortController()
  const loop = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await act()
      // What is refused at once takes no turn of the event loop.
      await turn()
    }
  }
  const done = loop()
  onTestFinished(async () => {
    over.abort()
    await done
  })
}

describeOnPrometheus('a Prometheus that scrapes a real export fires', () => {
  let exported: Exported
  let prometheus: PrometheusServer
  /** What runs beside all tests, so that its silence is one test's fault. */
  let beside: { database: TestDatabase; engine: Engine<Database>; completer: Background; stop: () => void }
  let database: TestDatabase
  let trial: EverythingTrial

  beforeAll(async () => {
    exported = await Exported.start()
    const quiet = await TestDatabase.create()
    const engine = createEngine({ pool: quiet.pool(), pipelines: [nothing], schema: quiet.schema })
    const { stop } = instrument({ engine, meterProvider: exported.provider })
    const completer = createBackground({ engine, completer: { pollMs: 50 }, reaper: false })
    completer.start()
    beside = { database: quiet, engine, completer, stop }
    prometheus = await PrometheusServer.start(
      exported.url,
      alertRules([...ALERTS, COMPLETER_WORKS], 'exporter', hasty),
    )
    await prometheus.fires(COMPLETER_WORKS.name)
  })
  afterAll(async () => {
    await prometheus.stop()
    await beside.completer.stop()
    beside.stop()
    await beside.engine.close()
    await exported.stop()
    await beside.database.drop()
  })
  beforeEach(async () => {
    database = await TestDatabase.create()
    await createRideTables(database)
    trial = new EverythingTrial(database, exported)
  })
  afterEach(() => database.drop())

  const nothing = pipeline<null>({ name: 'nothing', version: 1 }).finish(() => respond(204))

  /** An engine whose database is read. */
  const watched = () => {
    const pool = database.pool()
    const engine = trial.engine(trial.options(), createOperator({ pool, schema: database.schema }))
    return { engine, pool }
  }

  /** What makes each alert fire, and what its labels or texts have to say then. */
  const faults: Readonly<Record<string, () => Promise<object>>> = {
    PawlStoreUnavailable: async () => {
      const engine = await trial.away()
      again(() => trial.execute(engine))
      return { labels: { severity: 'critical' } }
    },
    PawlKeysStuck: async () => {
      watched()
      await trial.unknownOutcomes()
      return { labels: { pawl_stuck_reason: 'unknown_outcome' } }
    },
    PawlKeysUnattended: async () => {
      watched()
      const ride = new RideTrial(database)
      expect(await ride.dieAt('charge_created/call#1:after')).toBe('died')
      await database.expireLeases()
      return {}
    },
    PawlCompleterSilent: async () => {
      await beside.completer.stop()
      onTestFinished(async () => {
        beside.completer.start()
        await prometheus.rests('PawlCompleterSilent')
      })
      return {}
    },
    PawlJobsDead: async () => {
      const { engine } = watched()
      await trial.execute(engine)
      const sink = deliverEach(() => Promise.reject(new Error('no such queue')))
      await createBackground({
        engine,
        relay: { sink, maxAttempts: 1 },
        completer: false,
        reaper: false,
      }).runOnce()
      return {}
    },
    PawlJobsOverdue: async () => {
      const { engine } = watched()
      await trial.execute(engine)
      return {}
    },
    PawlDuplicatesOfTenant: async () => {
      const engine = trial.engine()
      const key = randomUUID()
      again(() => trial.execute(engine, trial.ride, key))
      return { labels: { pawl_scope_hash: expect.stringMatching(/^[\da-f]{16}$/) as string } }
    },
    PawlMismatches: async () => {
      const engine = trial.engine()
      const key = randomUUID()
      await trial.execute(engine, trial.ride, key, 1)
      again(() => trial.execute(engine, trial.ride, key, 2))
      return { labels: { pawl_pipeline: 'create-ride' } }
    },
    PawlReaperBehind: async () => {
      const { engine } = watched()
      await trial.execute(engine)
      await database.rows(
        `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour' WHERE status = 'finished'`,
      )
      return {}
    },
    PawlReadingsStale: async () => {
      const { pool } = watched()
      await pool.end()
      return {}
    },
  }

  test.each(ALERTS.map(({ name }) => name))('%s', async (name) => {
    await prometheus.rests(name)
    const wanted = await faults[name]?.()
    const alert = await prometheus.fires(name)
    expect(alert).toMatchObject(wanted ?? { 'there is no fault for': name })
    // Texts whose labels or values are wrong have an error in them.
    expect(JSON.stringify(alert.annotations)).not.toMatch(/error|no value|%!|\{\{/i)
  })
})
