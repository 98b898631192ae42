import { ConditionMark } from '../../components/badge.js'
import { type Series, TimeSeries } from '../../components/time-series.js'
import { CONDITION_TEXT } from '../../format/condition.js'
import { counted, formatBoundedCount, formatCount, formatRate } from '../../format/count.js'
import { formatAge } from '../../format/duration.js'
import type { FlowNow } from '../../live/live-flow.js'
import { Link } from '../../router/link.js'
import { countOf, STANDING, type Standing, statusOf } from './standing.js'

/** Work that waits for longer than this is worth a line: no completer, or no relay, seems to be running. */
const LONG_MS = 60_000

/** The whole map in a few figures, and in words what somebody should look at. */
export function Summary({ flow, finished }: { readonly flow: FlowNow; readonly finished: Series }) {
  const rate = flow.pipelines.reduce((sum, { finishedPerMinute }) => sum + finishedPerMinute, 0)
  return (
    <section class="summary" aria-label="In all">
      <ul class="summary-figures">
        {STANDING.map((condition) => (
          <Figure key={condition} condition={condition} flow={flow} />
        ))}
      </ul>
      <figure class="summary-rate">
        <figcaption>
          <span class="summary-number">{formatRate(rate)}</span> finished per minute
        </figcaption>
        <TimeSeries series={finished} label="Requests finished per minute, while this page was open" />
      </figure>
      <Remarks flow={flow} />
    </section>
  )
}

function Figure({ condition, flow }: { readonly condition: Standing; readonly flow: FlowNow }) {
  const count = flow.pipelines.reduce(
    (sum, { points }) => sum + points.reduce((inside, point) => inside + countOf(point, condition), 0),
    0,
  )
  const { word, meaning } = CONDITION_TEXT[condition]
  return (
    <li>
      <Link class="summary-figure" to="requests" query={{ status: statusOf(condition) }} title={meaning}>
        <span class={`summary-number ${count === 0 ? 'is-none' : ''}`}>
          {formatCount(count)}
          {flow.isPartial && '+'}
        </span>
        <span class="summary-word">
          <ConditionMark condition={condition} />
          {word}
        </span>
      </Link>
    </li>
  )
}

function Remarks({ flow: { oldestUnattended, jobs, isPartial } }: { readonly flow: FlowNow }) {
  const { dead, waiting, oldestDueMs } = jobs
  const unattendedMs = oldestUnattended?.sinceMs ?? 0
  return (
    <ul class="summary-remarks">
      {unattendedMs > LONG_MS && (
        <li>
          <Link to="requests" query={{ status: 'unattended' }}>
            A request has been due for {formatAge(unattendedMs)}
          </Link>
          , and nobody runs it. Is a completer running where its pipeline is registered?
        </li>
      )}
      {(oldestDueMs ?? 0) > LONG_MS && (
        <li>
          {counted(waiting.count, 'job')} {waiting.count === 1 ? 'waits' : 'wait'}, the oldest for{' '}
          {formatAge(oldestDueMs ?? 0)}. Is a relay running?
        </li>
      )}
      {dead.count > 0 && (
        <li>
          <Link to="dead">{`${formatBoundedCount(dead)} dead ${dead.count === 1 ? 'letter' : 'letters'}`}</Link>
          : not delivered until somebody requeues them.
        </li>
      )}
      {isPartial && (
        <li>More requests are unfinished than were counted: there are at least as many as shown.</li>
      )}
    </ul>
  )
}
