import { useState } from 'preact/hooks'
import type { AsJson, DeadJobList } from '../../../src/api.js'
import { RequeueDialog, type Requeued } from '../../actions/requeue-dialog.js'
import { get } from '../../api/client.js'
import { useSession } from '../../api/session.js'
import { useAnswer } from '../../api/use-answer.js'
import { Button } from '../../components/button.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Page, Section } from '../../components/page.js'
import { Empty, Failure, Loading, Outdated } from '../../components/states.js'
import { Table } from '../../components/table.js'
import { formatCount } from '../../format/count.js'
import { jobColumns } from './job-columns.js'

type Jobs = AsJson<DeadJobList>['jobs']

/** Jobs that were given up, by their names. */
export function DeadLettersPage() {
  const { answer, error, reload } = useAnswer('dead', (signal) => get<DeadJobList>('dead', {}, signal))
  const [open, setOpen] = useState<Requeued | null>(null)
  return (
    <Page
      title="Dead letters"
      intro="A relay has tried each of these jobs as often as it may. They are not delivered until somebody requeues them: fix the cause first."
    >
      {answer === null && error === null && <Loading what="dead jobs" />}
      {answer === null && error !== null && <Failure error={error} onRetry={reload} />}
      {answer !== null && error !== null && <Outdated error={error} onRetry={reload} />}
      {answer?.jobs.length === 0 && (
        <Empty title="No job is dead.">
          <p>Every job that requests have staged was delivered, or still waits for its turn.</p>
        </Empty>
      )}
      {answer?.isPartial === true && (
        <p class="dead-partial">
          The oldest {formatCount(answer.jobs.length)}; there are more. Requeuing all of a name takes those as
          well.
        </p>
      )}
      {answer !== null &&
        byName(answer.jobs).map(([name, jobs]) => (
          <DeadJobs
            key={name}
            name={name}
            jobs={jobs}
            count={`${formatCount(jobs.length)}${answer.isPartial ? '+' : ''}`}
            onRequeue={setOpen}
          />
        ))}
      {open !== null && <RequeueDialog of={open} onClose={() => setOpen(null)} onChanged={reload} />}
    </Page>
  )
}

interface DeadJobsProps {
  readonly name: string
  readonly jobs: Jobs
  readonly count: string
  readonly onRequeue: (which: Requeued) => void
}

function DeadJobs({ name, jobs, count, onRequeue }: DeadJobsProps) {
  const canChange = useSession()?.canChange === true
  return (
    <Section
      class="dead-jobs"
      title={
        <>
          <ForeignText text={name} class="id" /> <span class="dead-count">{count}</span>
        </>
      }
      aside={
        canChange ? (
          <Button aria-haspopup="dialog" onClick={() => onRequeue({ name, jobId: null, count })}>
            Requeue all…
          </Button>
        ) : undefined
      }
    >
      <Table
        caption={`Dead jobs called ${name}`}
        columns={jobColumns(canChange ? (jobId) => onRequeue({ name, jobId }) : null)}
        rows={jobs}
        rowKey={({ jobId }) => jobId}
        isWindowed
      />
    </Section>
  )
}

function byName(jobs: Jobs): [string, Jobs][] {
  const names = new Map<string, Jobs[number][]>()
  for (const job of jobs) {
    const known = names.get(job.name)
    if (known === undefined) names.set(job.name, [job])
    else known.push(job)
  }
  return [...names]
}
