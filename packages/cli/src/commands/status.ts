import { defineCommand, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { DEFAULT_OVERDUE_MS } from '../limits.js'
import { parseDuration } from '../parse/duration.js'
import { renderStatus, statusFindings } from '../render/status.js'

export const statusCommand = defineCommand({
  name: 'status',
  summary: 'counts per pipeline, version and recovery point; what needs a person',
  args: [],
  options: { overdue: value('DURATION', parseDuration, 'how long work may wait; default: 5m') },
  details: [
    'The columns count keys. HELD: a process runs them. BACKING OFF: they wait for their next attempt. UNATTENDED: they are due and nobody holds them, which is work for a completer, not for a person. STUCK: a person has to decide, and unsticks or answers them.',
  ],
  exits: {
    [EXIT.findings]:
      'keys are stuck, jobs are dead, keys have been retried for more than ten minutes, or work has been waiting for longer than --overdue',
  },
  async run({ options }, { schema, paint, withDatabase }) {
    const report = await withDatabase(({ operator }) => operator.status())
    const findings = statusFindings(report, options.overdue ?? DEFAULT_OVERDUE_MS, schema)
    return {
      exit: findings.length === 0 ? EXIT.ok : EXIT.findings,
      lines: renderStatus(report, findings, schema, paint),
      json: { schema, ...report, findings },
    }
  },
})
