import type { Counter, Histogram, Meter, ObservableGauge } from '@opentelemetry/api'
import type { AnyOutcome } from '../traces/outcome-attributes.js'
import { type AttributeName, METRICS, type MetricName, type NamesOf } from './metric-table.js'

/** The attributes of a metric, all of them: one that is left out would make two series of one. */
export type AttributesOf<Name extends MetricName> = {
  readonly [Attribute in (typeof METRICS)[Name]['attributes'][number] & AttributeName]:
    | string
    | number
    | boolean
}

/**
 * Seconds. From the quickest replay to a call that uses up its time: those that the conventions recommend for HTTP, and more at
 * both ends.
 */
const BOUNDARIES_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** Every outcome of `execute`, `enqueue` and `resume`, and what wrong use counts as. */
const OUTCOMES = {
  completed: true,
  enqueued: true,
  replayed: true,
  in_flight: true,
  mismatch: true,
  expired: true,
  limited: true,
  retry_later: true,
  stuck: true,
  refused: true,
  unavailable: true,
  gone: true,
  threw: true,
} as const satisfies Record<AnyOutcome['type'] | 'threw', true>

/** What became of a request, for the metrics. */
export type RequestEnd = keyof typeof OUTCOMES

/** The instruments of all metrics, made once for each meter. */
export class Instruments {
  readonly #counters = new Map<string, Counter>()
  readonly #histograms = new Map<string, Histogram>()
  readonly #gauges = new Map<string, ObservableGauge>()
  readonly #known = new Set<string>()

  constructor(meter: Meter) {
    for (const [name, { instrument, unit, description }] of Object.entries(METRICS)) {
      const advice = { explicitBucketBoundaries: BOUNDARIES_S }
      if (instrument === 'counter') this.#counters.set(name, meter.createCounter(name, { unit, description }))
      else if (instrument === 'histogram')
        this.#histograms.set(name, meter.createHistogram(name, { unit, description, advice }))
      else this.#gauges.set(name, meter.createObservableGauge(name, { unit, description }))
    }
  }

  add<Name extends NamesOf<'counter'>>(name: Name, count: number, attributes: AttributesOf<Name>): void {
    this.#counters.get(name)?.add(count, attributes)
  }

  /**
   * Counts a request. The first one of its kind brings all outcomes with it, as 0: what appears with its first failure as 1 has not
   * increased, and no alert would see it.
   */
  addRequest(of: AttributesOf<'pawl.requests'> & { readonly 'pawl.outcome': RequestEnd }): void {
    const kind = `${of['pawl.by']} ${of['pawl.version']} ${of['pawl.pipeline']}`
    if (!this.#known.has(kind)) {
      this.#known.add(kind)
      for (const outcome of Object.keys(OUTCOMES))
        this.add('pawl.requests', 0, { ...of, 'pawl.outcome': outcome })
    }
    this.add('pawl.requests', 1, of)
  }

  record<Name extends NamesOf<'histogram'>>(name: Name, ms: number, attributes: AttributesOf<Name>): void {
    this.#histograms.get(name)?.record(ms / 1_000, attributes)
  }

  gauge(name: NamesOf<'gauge'>): ObservableGauge {
    const gauge = this.#gauges.get(name)
    if (gauge === undefined) throw new TypeError(`There is no gauge '${name}'.`)
    return gauge
  }

  /** Some of the gauges, for a callback that observes them together. */
  gauges(names: readonly NamesOf<'gauge'>[]): ObservableGauge[] {
    return names.map((name) => this.gauge(name))
  }
}
