import { ForeignText } from '../../components/foreign-text.js'
import { Duration, Time } from '../../components/moment.js'
import type { ReportNow } from './request-page.js'
import { timelineOf } from './timeline-events.js'

/** What happened, oldest first. A line between two attempts says that another process took over. */
export function Timeline({ report }: { readonly report: ReportNow }) {
  let fence: number | null = null
  return (
    <ol class="timeline">
      {timelineOf(report).map((event) => {
        const isTakenOver = event.fence !== null && fence !== null && event.fence > fence
        const from = fence
        if (event.fence !== null) fence = Math.max(fence ?? 0, event.fence)
        return (
          <li key={event.id} class={`event event-${event.kind}`}>
            {isTakenOver && (
              <p class="event-takeover">
                Granted again: fence {from} to {event.fence}. What the attempt before would still write is
                refused.
              </p>
            )}
            <div class="event-line">
              <span class="event-dot" aria-hidden="true" />
              <div class="event-text">
                <p class="event-title">
                  <ForeignText text={event.title} />
                </p>
                {event.detail !== null && (
                  <p class="event-detail">
                    <ForeignText text={event.detail} />
                  </p>
                )}
              </div>
              <p class="event-facts">
                {event.tookMs !== null && (
                  <span class="event-took">
                    after <Duration ms={event.tookMs} />
                  </span>
                )}
                {event.fence !== null && <span class="event-fence">fence {event.fence}</span>}
                <Time at={event.at} isPrecise />
              </p>
            </div>
          </li>
        )
      })}
    </ol>
  )
}
