import { ALERTS } from './alert-table.js'
import { alertRules } from './alert-rules.js'
import { dashboard } from './dashboard.js'
import { docsTables } from './docs-tables.js'
import type { Naming } from './prometheus-names.js'

const HEAD = (naming: Naming): string => `# Alert rules for Pawl, for metrics that come ${SOURCES[naming]}.
# Made by node scripts/observability.mjs from the table of the metrics; docs/observability.md explains each of them.
`

const SOURCES: Readonly<Record<Naming, string>> = {
  exporter: 'through @opentelemetry/exporter-prometheus',
  otlp: 'over OTLP: through the OpenTelemetry Collector, or into Prometheus itself',
}

/** Everything that is ready to load, by its path in the package. */
export function readyFiles(): Readonly<Record<string, string>> {
  return {
    'alerts/pawl-exporter.yml': HEAD('exporter') + alertRules(ALERTS, 'exporter'),
    'alerts/pawl-otlp.yml': HEAD('otlp') + alertRules(ALERTS, 'otlp'),
    'dashboards/pawl-exporter.json': dashboard('exporter'),
    'dashboards/pawl-otlp.json': dashboard('otlp'),
  }
}

/** A page with its tables as they have to be. A table stands between comments that name it. */
export function withTables(page: string): string {
  return Object.entries(docsTables()).reduce((text, [name, table]) => {
    const place = new RegExp(`(<!-- ${name} -->\n).*?(<!-- /${name} -->)`, 's')
    if (!place.test(text)) throw new TypeError(`The page has no place for the table '${name}'.`)
    return text.replace(place, (_, begin: string, end: string) => `${begin}\n${table}\n\n${end}`)
  }, page)
}
