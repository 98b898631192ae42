import { type AttributeName, METRICS, type Metric, type MetricName } from '../metrics/metric-table.js'

/**
 * Who turns metrics into Prometheus's: `@opentelemetry/exporter-prometheus` leaves their units out of the names (`exporter`), and the
 * Collector and Prometheus itself, where they get OTLP, put them in (`otlp`).
 */
export type Naming = 'exporter' | 'otlp'

/** How Prometheus spells the units that we use. What is counted in braces is not spelled out. */
const UNITS: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' }

/** What a metric is called in Prometheus, as OpenTelemetry's specification has it. */
export function prometheusName(name: MetricName, naming: Naming): string {
  const { instrument, unit }: Metric = METRICS[name]
  const ofUnit = naming === 'otlp' ? (UNITS[unit] ?? '') : ''
  return `${underscored(name)}${ofUnit}${instrument === 'counter' ? '_total' : ''}`
}

/** The names of a metric's time series: a histogram has three. */
export function prometheusNames(name: MetricName, naming: Naming): string[] {
  const base = prometheusName(name, naming)
  return METRICS[name].instrument === 'histogram'
    ? ['_bucket', '_count', '_sum'].map((end) => `${base}${end}`)
    : [base]
}

/** What an attribute is called in Prometheus. */
export function prometheusLabel(attribute: AttributeName): string {
  return underscored(attribute)
}

const underscored = (name: string): string => name.replaceAll('.', '_')
