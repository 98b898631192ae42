import { metricList, type Metric, type MetricName } from '../metrics/metric-table.js'
import { expressionsIn, type Matchers } from './expressions.js'
import { type Naming, prometheusLabel, prometheusName } from './prometheus-names.js'

/** What a panel shows. */
interface Panel {
  readonly title: string
  readonly unit: string
  readonly queries: readonly { readonly expr: string; readonly legend: string }[]
  readonly description: string
}

interface Row {
  readonly title: string
  readonly metrics: readonly MetricName[]
}

/** In the order in which a person asks: is it well, who waits, what is slow, what is behind it. Every metric is in one. */
const ROWS: readonly Row[] = [
  {
    title: 'Requests',
    metrics: ['pawl.requests', 'pawl.request.duration', 'pawl.scope.duplicates', 'pawl.replays'],
  },
  {
    title: 'Where keys stand',
    metrics: [
      'pawl.keys',
      'pawl.keys.stuck',
      'pawl.keys.oldest_unattended',
      'pawl.keys.marked_stuck',
      'pawl.keys.finished',
      'pawl.keys.expired',
      'pawl.keys.oldest_expired',
    ],
  },
  {
    title: 'Phases and calls',
    metrics: [
      'pawl.phase.duration',
      'pawl.call.duration',
      'pawl.phase.failures',
      'pawl.connection.wait.duration',
      'pawl.transaction.retries',
      'pawl.calls.unknown',
    ],
  },
  {
    title: 'Recovery',
    metrics: [
      'pawl.takeovers',
      'pawl.fences.lost',
      'pawl.commits.unknown',
      'pawl.breaker.changes',
      'pawl.warnings',
    ],
  },
  {
    title: 'Jobs and background services',
    metrics: [
      'pawl.jobs',
      'pawl.jobs.oldest_due',
      'pawl.job.deliveries',
      'pawl.round.duration',
      'pawl.round.items',
    ],
  },
  {
    title: 'Tables',
    metrics: ['pawl.table.size', 'pawl.table.rows', 'pawl.reading.age', 'pawl.reading.failures'],
  },
]

/** What most of a metric's values are split by, where that is not all of its attributes. */
const SPLIT_BY: {
  readonly [Name in MetricName]?: readonly (typeof metricList)[number]['attributes'][number][]
} = {
  'pawl.requests': ['pawl.pipeline', 'pawl.outcome'],
  'pawl.request.duration': ['pawl.pipeline'],
  'pawl.phase.duration': ['pawl.pipeline', 'pawl.phase'],
  'pawl.call.duration': ['pawl.pipeline', 'pawl.phase'],
  'pawl.connection.wait.duration': [],
  'pawl.round.duration': ['pawl.service'],
}

const COLUMNS = 24
const WIDTH = 8
const HEIGHT = 8
const ROW_HEIGHT = 1

/** A Grafana dashboard with a panel for every metric, as JSON. It asks for its data source when it is loaded. */
export function dashboard(naming: Naming): string {
  const panels: unknown[] = []
  let y = 0
  for (const { title, metrics } of ROWS) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title,
      collapsed: false,
      panels: [],
      gridPos: at(0, y, COLUMNS, ROW_HEIGHT),
    })
    y += ROW_HEIGHT
    for (const [index, name] of metrics.entries()) {
      const x = (index * WIDTH) % COLUMNS
      const panelY = y + Math.floor((index * WIDTH) / COLUMNS) * HEIGHT
      panels.push(grafanaPanel(panels.length + 1, panelOf(name, naming), at(x, panelY, WIDTH, HEIGHT)))
    }
    y += Math.ceil((metrics.length * WIDTH) / COLUMNS) * HEIGHT
  }
  const page = {
    title: 'Pawl',
    uid: `pawl-${naming}`,
    tags: ['pawl'],
    schemaVersion: 39,
    editable: true,
    time: { from: 'now-1h', to: 'now' },
    refresh: '30s',
    templating: { list: [DATA_SOURCE, pipelineVariable(naming)] },
    panels,
  }
  return `${JSON.stringify(page, null, 2)}\n`
}

const DATA_SOURCE = { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' }

const pipelineVariable = (naming: Naming) => ({
  name: 'pipeline',
  label: 'Pipeline',
  type: 'query',
  datasource: { type: 'prometheus', uid: '${datasource}' },
  query: `label_values(${prometheusName('pawl.requests', naming)}, ${prometheusLabel('pawl.pipeline')})`,
  includeAll: true,
  // With all of them, keys of pipelines that had no requests lately are seen as well.
  allValue: '.*',
  multi: true,
  refresh: 2,
})

const at = (x: number, y: number, w: number, h: number) => ({ x, y, w, h })

/** How Grafana writes the units that we use. */
const GRAFANA_UNITS: Readonly<Record<string, string>> = { s: 's', By: 'bytes' }

function panelOf(name: MetricName, naming: Naming): Panel {
  const metric = metricList.find((each) => each.name === name)
  if (metric === undefined) throw new TypeError(`There is no metric '${name}'.`)
  const { description, unit, attributes } = metric
  const labels = (SPLIT_BY[name] ?? attributes).map(prometheusLabel)
  const legend = labels.map((label) => `{{${label}}}`).join(' ') || name
  return {
    title: titleOf(name),
    unit: GRAFANA_UNITS[unit] ?? 'short',
    description,
    queries: queriesOf(metric, naming, labels, legend),
  }
}

function queriesOf(
  { name, instrument, attributes }: Metric & { readonly name: MetricName },
  naming: Naming,
  labels: readonly string[],
  legend: string,
): Panel['queries'] {
  const { series } = expressionsIn(naming)
  const only: Matchers = {}
  const ofPipeline = attributes.includes('pawl.pipeline')
    ? `{${prometheusLabel('pawl.pipeline')}=~"$pipeline"}`
    : ''
  const by = (more: readonly string[] = []) =>
    labels.length + more.length === 0 ? '' : ` by (${[...labels, ...more].join(', ')})`
  const base = prometheusName(name, naming)
  switch (instrument) {
    case 'counter':
      return [{ expr: `sum${by()} (rate(${series(name, only)}${ofPipeline}[$__rate_interval]))`, legend }]
    case 'histogram':
      return [0.5, 0.99].map((quantile) => ({
        expr: `histogram_quantile(${quantile}, sum${by(['le'])} (rate(${base}_bucket${ofPipeline}[$__rate_interval])))`,
        legend: `${legend} p${quantile * 100}`,
      }))
    case 'gauge': {
      // What each process has counted itself is added up. Numbers of the database are the same in all of them.
      const how = name === 'pawl.scope.duplicates' ? 'sum' : 'max'
      return [{ expr: `${how}${by()} (${base}${ofPipeline})`, legend }]
    }
  }
}

const titleOf = (name: MetricName): string => {
  const words = name.slice('pawl.'.length).replaceAll(/[._]/g, ' ')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

function grafanaPanel(id: number, { title, unit, description, queries }: Panel, gridPos: unknown): unknown {
  return {
    id,
    type: 'timeseries',
    title,
    description,
    datasource: { type: 'prometheus', uid: '${datasource}' },
    gridPos,
    fieldConfig: {
      defaults: { unit, min: 0, custom: { lineWidth: 1, fillOpacity: 8, showPoints: 'never' } },
      overrides: [],
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom' },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCodePoint('A'.charCodeAt(0) + index),
      expr,
      legendFormat: legend,
    })),
  }
}
