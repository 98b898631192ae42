import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { metricList } from '../../packages/opentelemetry/src/metrics/metric-table.js'
import { ALERTS } from '../../packages/opentelemetry/src/ready/alert-table.js'
import { type Naming, prometheusName } from '../../packages/opentelemetry/src/ready/prometheus-names.js'
import { readyFiles, withTables } from '../../packages/opentelemetry/src/ready/ready-files.js'
import { describeOnPrometheus } from '../support/prometheus-server.js'

const PACKAGE = fileURLToPath(new URL('../../packages/opentelemetry', import.meta.url))
const PAGE = fileURLToPath(new URL('../../docs/observability.md', import.meta.url))
const AGAIN = 'run: node scripts/observability.mjs'

const exec = promisify(execFile)

test.each(Object.entries(readyFiles()))('%s is made from the tables', async (name, text) => {
  expect(await readFile(join(PACKAGE, name), 'utf8'), AGAIN).toBe(text)
})

test('docs/observability.md has the tables as they are', async () => {
  const page = await readFile(PAGE, 'utf8')
  expect(page, AGAIN).toBe(withTables(page))
})

test.each(['exporter', 'otlp'] as const)('the dashboard has a panel for every metric (%s)', (naming) => {
  const text = readyFiles()[`dashboards/pawl-${naming}.json`] ?? ''
  const { panels } = JSON.parse(text) as {
    panels: { type: string; gridPos: { x: number; y: number }; targets?: { expr: string }[] }[]
  }
  const asked = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n')
  for (const { name } of metricList)
    expect(asked, name).toMatch(new RegExp(`\\b${prometheusName(name, naming)}(?:_count|_bucket)?\\b`))
  // No two in the same place.
  const places = panels.map(({ gridPos: { x, y } }) => `${x},${y}`)
  expect(new Set(places).size).toBe(places.length)
})

/** What a scrape once a minute has to bring for an alert to fire, with the settings that are shipped, and what is still normal. */
const SERIES: Readonly<Record<string, { readonly fires: Lines; readonly rests: Lines }>> = {
  PawlStoreUnavailable: {
    fires: { 'pawl_requests_total{pawl_outcome="unavailable"}': '0+1x30' },
    // One that failed lately is none.
    rests: { 'pawl_requests_total{pawl_outcome="unavailable"}': '7+0x22 8+0x9' },
  },
  PawlKeysStuck: {
    fires: { 'pawl_keys_stuck{pawl_stuck_reason="too_old"}': '1+0x30' },
    rests: { 'pawl_keys_stuck{pawl_stuck_reason="too_old"}': '0+0x30' },
  },
  PawlKeysUnattended: {
    fires: { pawl_keys_oldest_unattended: '0+60x30' },
    rests: { pawl_keys_oldest_unattended: '290+0x30' },
  },
  PawlCompleterSilent: {
    fires: {
      'pawl_round_duration_count{pawl_service="completer", pawl_round_result="ended"}': '9+0x30',
      'pawl_round_duration_count{pawl_service="completer", pawl_round_result="failed"}': '0+60x30',
    },
    rests: { 'pawl_round_duration_count{pawl_service="completer", pawl_round_result="ended"}': '0+60x30' },
  },
  PawlJobsDead: {
    fires: { 'pawl_jobs{pawl_job_condition="dead"}': '1+0x30' },
    rests: { 'pawl_jobs{pawl_job_condition="waiting"}': '9+0x30' },
  },
  PawlJobsOverdue: {
    fires: { pawl_jobs_oldest_due: '601+60x30' },
    rests: { pawl_jobs_oldest_due: '599+0x30' },
  },
  PawlDuplicatesOfTenant: {
    fires: {
      'pawl_scope_duplicates{pawl_scope_hash="ab", pawl_duplicate="replayed", instance="1"}': '400+0x30',
      'pawl_scope_duplicates{pawl_scope_hash="ab", pawl_duplicate="in_flight", instance="2"}': '300+0x30',
    },
    rests: {
      'pawl_scope_duplicates{pawl_scope_hash="ab", pawl_duplicate="replayed"}': '400+0x30',
      'pawl_scope_duplicates{pawl_scope_hash="cd", pawl_duplicate="replayed"}': '400+0x30',
      'pawl_scope_duplicates{pawl_scope_hash="other", pawl_duplicate="replayed"}': '9000+0x30',
    },
  },
  PawlMismatches: {
    fires: {
      'pawl_requests_total{pawl_pipeline="p", pawl_outcome="completed"}': '0+100x30',
      'pawl_requests_total{pawl_pipeline="p", pawl_outcome="mismatch"}': '0+2x30',
    },
    rests: {
      'pawl_requests_total{pawl_pipeline="p", pawl_outcome="completed"}': '0+1000x30',
      'pawl_requests_total{pawl_pipeline="p", pawl_outcome="mismatch"}': '0+2x30',
      'pawl_requests_total{pawl_pipeline="rare", pawl_outcome="mismatch"}': '0 1+0x29',
    },
  },
  PawlReaperBehind: {
    fires: { pawl_keys_oldest_expired: '3601+60x30' },
    rests: { pawl_keys_oldest_expired: '3599+0x30' },
  },
  PawlReadingsStale: {
    fires: { 'pawl_reading_age{instance="1"}': '60+60x30', 'pawl_reading_age{instance="2"}': '130+60x30' },
    rests: { 'pawl_reading_age{instance="1"}': '15+0x30', 'pawl_reading_age{instance="2"}': '60+60x30' },
  },
}

/** Of time series, by their names. */
type Lines = Readonly<Record<string, string>>

describeOnPrometheus('promtool', () => {
  test.each(['exporter', 'otlp'])('finds nothing wrong with the rules (%s)', async (naming) => {
    const { stdout } = await exec('promtool', ['check', 'rules', join(PACKAGE, `alerts/pawl-${naming}.yml`)])
    expect(stdout).toContain(`SUCCESS: ${ALERTS.length} rules found`)
  })

  test.each(['exporter', 'otlp'] as const)('sees each alert fire, and not too soon (%s)', async (naming) => {
    expect(Object.keys(SERIES)).toEqual(ALERTS.map(({ name }) => name))
    const cases = Object.entries(SERIES).flatMap(([name, { fires, rests }]) => [
      ruleTest(name, fires, 'yes', naming),
      ruleTest(name, rests, 'no', naming),
    ])
    const folder = await mkdtemp(join(tmpdir(), 'pawl-rules-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'test.yml')
    const rules = join(PACKAGE, `alerts/pawl-${naming}.yml`)
    // What is JSON is YAML.
    await writeFile(file, JSON.stringify({ rule_files: [rules], evaluation_interval: '1m', tests: cases }))
    await exec('promtool', ['test', 'rules', file])
  })
})

/** One case of a test of rules: with these time series, whether the alert has fired after a while. */
function ruleTest(alert: string, series: Lines, fires: 'yes' | 'no', naming: Naming): object {
  const expression = `count(ALERTS{alertname="${alert}", alertstate="firing"}) or vector(0)`
  return {
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: spelled(name, naming), values })),
    promql_expr_test: [
      { expr: expression, eval_time: '25m', exp_samples: [{ labels: '{}', value: fires === 'yes' ? 1 : 0 }] },
    ],
  }
}

/** The series above are named as the exporter does. */
function spelled(series: string, naming: Naming): string {
  const known = metricList.find(({ name }) =>
    new RegExp(`^${prometheusName(name, 'exporter')}(?:_count)?(?:\\{|$)`).test(series),
  )
  if (known === undefined) throw new Error(`There is no metric for ${series}.`)
  return series.replace(prometheusName(known.name, 'exporter'), prometheusName(known.name, naming))
}
