import { ATTRIBUTES, metricList } from '../metrics/metric-table.js'
import { ALERTS } from './alert-table.js'
import { duration, expressionsIn } from './expressions.js'

/** Where a metric's values come from, in words. */
const FEEDS = {
  requests: 'requests of the engine',
  channels: 'channels of the process',
  rounds: 'rounds of background services',
  database: 'the database',
  scopes: 'requests of the engine',
  reader: 'the reader of the database',
} as const

/** The tables of docs/observability.md, by the name that they have there. */
export function docsTables(): Readonly<Record<'metrics' | 'attributes' | 'alerts', string>> {
  const metrics = metricList.map(({ name, instrument, unit, description, attributes, feed }) => [
    code(name),
    instrument,
    code(unit),
    description,
    attributes.map((attribute) => code(attribute)).join(', '),
    FEEDS[feed],
  ])
  const attributes = Object.entries(ATTRIBUTES).map(([name, description]) => [code(name), description])
  const expressions = expressionsIn('exporter')
  const alerts = ALERTS.map((alert) => [
    code(alert.name),
    alert.summary.replaceAll(/:? ?\{\{ \$labels\.\w+ \}\}/g, ''),
    code(alert.expr(expressions, alert).replaceAll(/\s+/g, ' ')),
    duration(alert.forS),
    alert.severity,
  ])
  return {
    metrics: table(['metric', 'instrument', 'unit', 'what it is', 'split by', 'fed by'], metrics),
    attributes: table(['attribute', 'what it says'], attributes),
    alerts: table(['alert', 'what it says', 'fires where', 'for', 'severity'], alerts),
  }
}

const code = (text: string): string => `\`${text}\``

/** A Markdown table whose columns are as wide as their longest cell, as the formatter writes it. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll('|', String.raw`\|`)))
  const widths = head.map((title, column) =>
    Math.max(title.length, ...escaped.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[], fill = ' ') =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0, fill)).join(' | ')} |`
  return [
    line(head),
    line(
      head.map(() => ''),
      '-',
    ),
    ...escaped.map((row) => line(row)),
  ].join('\n')
}
