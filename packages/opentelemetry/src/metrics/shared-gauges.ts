import type { Attributes, BatchObservableResult, Meter } from '@opentelemetry/api'
import type { Instruments } from './instruments.js'
import type { NamesOf } from './metric-table.js'

/** What one gauge shows, for one set of attributes. */
export interface Observation {
  readonly name: NamesOf<'gauge'>
  readonly value: number
  readonly attributes: Attributes
}

/** Knows numbers for gauges, whenever somebody collects them. */
export type GaugeSource = () => readonly Observation[] | Promise<readonly Observation[]>

/** What is shown where two sources have numbers for the same series. */
type Merge = (one: number, other: number) => number

/**
 * Gauges that several engines of one meter provider have numbers for. They are observed together: of what is observed twice, an SDK keeps
 * the last, so that an engine where nothing happens would hide what happens in another.
 */
export class SharedGauges {
  readonly #meter: Meter
  readonly #instruments: Instruments
  readonly #names: readonly NamesOf<'gauge'>[]
  readonly #merge: Merge
  readonly #sources = new Set<GaugeSource>()

  constructor(meter: Meter, instruments: Instruments, names: readonly NamesOf<'gauge'>[], merge: Merge) {
    this.#meter = meter
    this.#instruments = instruments
    this.#names = names
    this.#merge = merge
  }

  /** Observes a source as well. Returns a function that ends it. */
  add(source: GaugeSource): () => void {
    const gauges = this.#instruments.gauges(this.#names)
    if (this.#sources.size === 0) this.#meter.addBatchObservableCallback(this.#observe, gauges)
    this.#sources.add(source)
    return () => {
      const wasThere = this.#sources.delete(source)
      if (wasThere && this.#sources.size === 0)
        this.#meter.removeBatchObservableCallback(this.#observe, gauges)
    }
  }

  readonly #observe = async (result: BatchObservableResult): Promise<void> => {
    const all = await Promise.all(Array.from(this.#sources, async (source) => source()))
    const merged = new Map<string, Observation>()
    for (const observation of all.flat()) {
      const series = JSON.stringify([observation.name, observation.attributes])
      const other = merged.get(series)
      const value = other === undefined ? observation.value : this.#merge(other.value, observation.value)
      merged.set(series, { ...observation, value })
    }
    for (const { name, value, attributes } of merged.values())
      result.observe(this.#instruments.gauge(name), value, attributes)
  }
}
