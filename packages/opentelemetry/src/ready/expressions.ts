import type { AttributeName, MetricName } from '../metrics/metric-table.js'
import { METRICS } from '../metrics/metric-table.js'
import { type Naming, prometheusLabel, prometheusName } from './prometheus-names.js'

/** What an attribute has to be, or must not be. */
export type Matchers = { readonly [Name in AttributeName]?: string | { readonly not: string } }

/** The parts that expressions are made of. */
export interface Sums {
  /** A time series; of a histogram, how many values there were. */
  readonly series: (name: MetricName, matchers?: Matchers) => string
  /** By how much a counter has grown in a time. */
  readonly increase: (name: MetricName, seconds: number, matchers?: Matchers) => string
  readonly label: (attribute: AttributeName) => string
}

/** Makes parts of expressions with the names that metrics have there. A metric or label that is not in the table does not compile. */
export function expressionsIn(naming: Naming): Sums {
  const series = (name: MetricName, matchers: Matchers = {}): string => {
    const count = METRICS[name].instrument === 'histogram' ? '_count' : ''
    return `${prometheusName(name, naming)}${count}${selector(matchers)}`
  }
  return {
    series,
    increase: (name, seconds, matchers) => `increase(${series(name, matchers)}[${duration(seconds)}])`,
    label: prometheusLabel,
  }
}

function selector(matchers: Matchers): string {
  const parts = Object.entries(matchers).map(([attribute, wanted]) => {
    const [operator, value] = typeof wanted === 'string' ? ['=', wanted] : ['!=', wanted.not]
    return `${prometheusLabel(attribute as AttributeName)}${operator}"${value}"`
  })
  return parts.length === 0 ? '' : `{${parts.join(', ')}}`
}

/** As Prometheus writes a time. */
export function duration(seconds: number): string {
  return seconds >= 60 && seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`
}
