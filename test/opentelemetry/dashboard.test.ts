import { randomUUID } from 'node:crypto'
import { createOperator } from '@pawl/core'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { ALERTS } from '../../packages/opentelemetry/src/ready/alert-table.js'
import { dashboard } from '../../packages/opentelemetry/src/ready/dashboard.js'
import { expressionsIn } from '../../packages/opentelemetry/src/ready/expressions.js'
import { describeOnPrometheus, PrometheusServer } from '../support/prometheus-server.js'
import { createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { EverythingTrial } from './everything.js'
import { Exported } from './exported.js'

const { panels } = JSON.parse(dashboard('exporter')) as {
  readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[]
}

/** As Grafana would send them with all pipelines, over a time that is as short as the test. */
const ofDashboard = panels
  .flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  .map((expr) => expr.replaceAll('$pipeline', '.*').replaceAll('$__rate_interval', '1m'))

/** The last value within a minute, also of what is not there any more: an interval of duplicates is short here. */
const latest = (series: string): string => `last_over_time(${series}[1m])`

const LATEST_SCOPE = latest('pawl_scope_duplicates{pawl_scope_hash!="other"}')

/** The series that alerts look at: whether they are there, and not whether they are too many. */
const ofAlerts = ALERTS.flatMap((alert) => {
  const looked: string[] = []
  const look = (expression: string): string => {
    looked.push(expression)
    return expression
  }
  const { series, increase, label } = expressionsIn('exporter')
  alert.expr(
    { label, series: (...of) => look(latest(series(...of))), increase: (...of) => look(increase(...of)) },
    alert,
  )
  return looked
})

describeOnPrometheus('a Prometheus that has scraped a real run', () => {
  let database: TestDatabase
  let exported: Exported

  beforeEach(async () => {
    database = await TestDatabase.create()
    await createRideTables(database)
    exported = await Exported.start()
  })
  afterEach(async () => {
    await exported.stop()
    await database.drop()
  })

  test('has something for every expression of the dashboard, and every one that an alert looks at', async () => {
    const operator = createOperator({ pool: database.pool(), schema: database.schema })
    const trial = new EverythingTrial(database, exported)
    const engine = trial.engine(trial.options(), operator)
    await trial.everything(engine)
    const prometheus = await PrometheusServer.start(exported.url, 'groups: []')
    onTestFinished(() => prometheus.stop())
    const key = randomUUID()
    const scraped = async (): Promise<number> => {
      // There are duplicates for as long as a client sends some.
      await trial.execute(engine, trial.ride, key)
      // Twice, so that rates can be told. It takes a moment until Prometheus listens.
      const both = `count_over_time(pawl_keys_finished[1m]) >= 2 and on () (count(${LATEST_SCOPE}) > 0)`
      return prometheus.count(both).catch(() => 0)
    }
    await expect.poll(scraped, { timeout: 60_000 }).toBe(1)
    expect(ofDashboard.length).toBeGreaterThan(30)
    const empty: string[] = []
    for (const expr of new Set([...ofDashboard, ...ofAlerts]))
      if ((await prometheus.count(expr)) === 0) empty.push(expr)
    expect(empty).toEqual([])
    // One that there is nothing for would be seen.
    expect(await prometheus.count('pawl_keys_lost')).toBe(0)
  })
})
