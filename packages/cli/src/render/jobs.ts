import type { JobView } from '@pawl/core'
import { MAX_CELL_WIDTH } from '../limits.js'
import type { Paint } from './paint.js'
import { type Reveal, valueText } from './redact.js'
import { safeText } from './safe-text.js'
import { table } from './table.js'
import { cutText } from './text-width.js'
import { momentText } from './time.js'

interface View {
  readonly reveal: Reveal
  /** It is already clear whose jobs they are. */
  readonly ofOneKey: boolean
  readonly paint: Paint
}

/** Jobs as a table. */
export function renderJobs(jobs: readonly JobView[], { reveal, ofOneKey, paint }: View): readonly string[] {
  return table(
    [
      { title: 'JOB' },
      ...(ofOneKey ? [] : [{ title: 'KEY ID' }]),
      { title: 'NAME' },
      { title: 'ATTEMPTS', align: 'right' },
      { title: 'STATE' },
      { title: 'PAYLOAD' },
      { title: 'LAST ERROR' },
    ],
    jobs.map((job) => [
      job.jobId,
      ...(ofOneKey ? [] : [job.keyId]),
      job.name,
      String(job.attempts),
      job.deadAt === null
        ? `due ${momentText(job.runAfter)}`
        : { text: `dead ${momentText(job.deadAt)}`, style: 'red' },
      valueText(job.payload, reveal),
      cutText(safeText(job.lastError ?? ''), MAX_CELL_WIDTH),
    ]),
    paint,
  )
}

export function noDeadJobNamed(name: string): string {
  return `No dead job is named '${safeText(name)}'.`
}
