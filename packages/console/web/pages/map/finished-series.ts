import { useEffect, useState } from 'preact/hooks'
import type { Series } from '../../components/time-series.js'
import { type FlowNow, liveFlow } from '../../live/live-flow.js'

/** A quarter of an hour at two seconds each: enough to see that something has changed since one began to look. */
const MAX_SAMPLES = 450

/** What this page has seen while it was open: finished requests per minute, in all and by lane. */
export interface FinishedSeries {
  readonly total: Series
  readonly byLane: ReadonlyMap<string, readonly number[]>
}

let seen: FinishedSeries = { total: { at: [], values: [] }, byLane: new Map() }
let lastAt = ''

/** It stays while the reader is on another page, where nothing is collected. */
export function useFinishedSeries(): FinishedSeries {
  const [series, setSeries] = useState(seen)
  useEffect(
    () =>
      liveFlow.listen(({ flow }) => {
        if (flow === null || flow.at === lastAt) return
        lastAt = flow.at
        seen = withSample(seen, flow)
        setSeries(seen)
      }),
    [],
  )
  return series
}

function withSample({ total, byLane }: FinishedSeries, { at, pipelines }: FlowNow): FinishedSeries {
  const rate = pipelines.reduce((sum, { finishedPerMinute }) => sum + finishedPerMinute, 0)
  return {
    total: {
      at: [...total.at, Date.parse(at) / 1_000].slice(-MAX_SAMPLES),
      values: [...total.values, rate].slice(-MAX_SAMPLES),
    },
    byLane: new Map(
      pipelines.map(({ name, version, finishedPerMinute }) => {
        const id = `${name}@${version}`
        return [id, [...(byLane.get(id) ?? []), finishedPerMinute].slice(-MAX_SAMPLES)]
      }),
    ),
  }
}
