import type { BoundedCount, KeyName, Layout, StatusReport } from '@pawl/core'
import { renderGroups } from './groups.js'
import { schemaOption } from '../schema-option.js'
import type { Paint } from './paint.js'
import { shellWord } from './safe-text.js'
import { type Cell, facts } from './table.js'
import { durationText, momentText } from './time.js'

/** What somebody has to look at in the status, a sentence each. */
export function statusFindings(report: StatusReport, overdueMs: number, schema: string): readonly string[] {
  const { stuckBy, oldestUnattended, retriedForLong, jobs } = report
  const stuck = stuckBy.reduce((sum, { count }) => sum + count, 0)
  const findings: string[] = []
  if (stuck > 0) {
    findings.push(
      `${stuck} stuck: a person has to decide. See pawl list --status stuck${schemaOption(schema)}.`,
    )
  }
  if (jobs.dead.count > 0) {
    const dead = `${countText(jobs.dead)} dead ${jobs.dead.count === 1 ? 'job' : 'jobs'}`
    findings.push(`${dead}: not delivered until requeued. See pawl dead${schemaOption(schema)}.`)
  }
  if (oldestUnattended !== null && oldestUnattended.sinceMs > overdueMs) {
    const since = durationText(oldestUnattended.sinceMs)
    findings.push(`A key has been unattended for ${since}: is a completer running that knows its version?`)
  }
  if (retriedForLong !== null) {
    const { count, sinceMs } = retriedForLong
    const keys = count === 1 ? 'A key has' : `${count} keys have`
    findings.push(
      `${keys} been tried again and again for ${durationText(sinceMs)}. Can this succeed? See ${showCommandFor(retriedForLong, schema)}.`,
    )
  }
  if (jobs.oldestDueMs !== null && jobs.oldestDueMs > overdueMs) {
    findings.push(`A job has been due for ${durationText(jobs.oldestDueMs)}: is a relay running?`)
  }
  return findings
}

export function renderStatus(
  report: StatusReport,
  findings: readonly string[],
  schema: string,
  paint: Paint,
): readonly string[] {
  const unfinished =
    report.unfinished.length === 0
      ? ['Nothing is unfinished.']
      : renderGroups(report.unfinished, report.at, paint)
  return [
    `${paint('bold', 'Status')} of schema ${schema}${partsOf(report.layout)} at ${momentText(report.at)}`,
    '',
    ...unfinished,
    '',
    ...facts(totals(report, schema), paint),
    '',
    ...(findings.length === 0
      ? [paint('green', 'Nothing needs a person.')]
      : findings.map((finding) => `${paint('red', '!')} ${finding}`)),
  ]
}

function partsOf(layout: Layout): string {
  switch (layout.kind) {
    case 'plain':
      return ''
    case 'partitioned':
      return ` (${layout.partitions} partitions)`
    case 'citus':
      return ` (${layout.shards} shards on Citus)`
  }
}

function totals(
  { stuckBy, finished, expired, oldestUnattended, jobs }: StatusReport,
  schema: string,
): [string, Cell][] {
  const { waiting, dead, oldestDueMs } = jobs
  const reasons = stuckBy.map(({ reason, count }) => `${count} ${reason}`).join(', ')
  const oldest =
    oldestUnattended === null
      ? 'none'
      : `ran out ${durationText(oldestUnattended.sinceMs)} ago: ${showCommandFor(oldestUnattended, schema)}`
  return [
    ['Stuck', reasons === '' ? 'none' : { text: reasons, style: 'red' }],
    ['Oldest lease', oldest],
    ['Finished', `${countText(finished)}, of which ${countText(expired)} expired`],
    [
      'Jobs waiting',
      oldestDueMs === null
        ? countText(waiting)
        : `${countText(waiting)}, the oldest due for ${durationText(oldestDueMs)}`,
    ],
    ['Dead jobs', dead.count === 0 ? 'none' : { text: countText(dead), style: 'red' }],
  ]
}

/** Ready to be copied into a shell. */
function showCommandFor({ scope, key }: KeyName, schema: string): string {
  // What looks like an option has to come after the dashes.
  const dashes = [scope, key].some((name) => name.startsWith('-')) ? ' --' : ''
  return `pawl show${schemaOption(schema)}${dashes} ${shellWord(scope)} ${shellWord(key)}`
}

/** `10000+` where the counting stopped. */
function countText({ count, isAtLeast }: BoundedCount): string {
  return `${count}${isAtLeast ? '+' : ''}`
}
