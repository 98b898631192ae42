import { ForeignText } from '../../components/foreign-text.js'
import { HiddenValue } from '../../components/hidden-value.js'
import { Time } from '../../components/moment.js'
import { Section } from '../../components/page.js'
import { counted } from '../../format/count.js'
import type { ReportNow } from './request-page.js'

interface JobsProps {
  readonly jobs: ReportNow['jobs']
  readonly onReveal: (() => void) | undefined
}

/** Jobs of it that are still to be delivered, or were given up. */
export function Jobs({ jobs, onReveal }: JobsProps) {
  if (jobs.length === 0) return null
  return (
    <Section title="Staged jobs" aside="Those that are not delivered yet">
      <ul class="cards">
        {jobs.map((job) => (
          <li key={job.jobId} class="card">
            <div class="card-head">
              <h3>
                <ForeignText text={job.name} />
              </h3>
              <p class="muted">
                {job.deadAt === null ? (
                  <>
                    due <Time at={job.runAfter} />
                  </>
                ) : (
                  <>
                    given up <Time at={job.deadAt} />
                  </>
                )}
                {job.attempts > 0 && `, ${counted(job.attempts, 'attempt')}`}
              </p>
            </div>
            {job.lastError !== null && (
              <p class="card-error">
                <ForeignText text={job.lastError} />
              </p>
            )}
            <HiddenValue value={job.payload} what={`payload of ${job.name}`} onReveal={onReveal} />
          </li>
        ))}
      </ul>
    </Section>
  )
}
