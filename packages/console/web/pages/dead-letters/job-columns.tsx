import type { AsJson, DeadJobList } from '../../../src/api.js'
import { Button } from '../../components/button.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Identifier } from '../../components/identifier.js'
import { Age } from '../../components/moment.js'
import type { Column } from '../../components/table.js'
import { formatBytes, formatCount } from '../../format/count.js'
import { Link } from '../../router/link.js'

type Job = AsJson<DeadJobList>['jobs'][number]

/** What a dead job is known by. Null: whoever looks may not requeue. */
export function jobColumns(onRequeue: ((jobId: string) => void) | null): readonly Column<Job>[] {
  const columns: readonly Column<Job>[] = [
    {
      id: 'job',
      title: 'Job',
      isHeading: true,
      cell: ({ jobId }) => <Identifier text={jobId} what="job id" isShort />,
    },
    {
      id: 'request',
      title: 'Staged by',
      cell: ({ keyId }) => <Link to={`requests/${keyId}`}>its request</Link>,
    },
    { id: 'attempts', title: 'Attempts', align: 'end', cell: ({ attempts }) => formatCount(attempts) },
    {
      id: 'died',
      title: 'Dead for',
      align: 'end',
      cell: ({ deadAt }) => (deadAt === null ? '' : <Age since={deadAt} />),
    },
    { id: 'payload', title: 'Payload', align: 'end', cell: ({ payload }) => formatBytes(payload.bytes) },
    {
      id: 'error',
      title: 'Last error',
      cell: ({ lastError, sealed }) => <ForeignText text={sealed ?? lastError ?? 'none recorded'} isShort />,
    },
  ]
  if (onRequeue === null) return columns
  return [
    ...columns,
    {
      id: 'act',
      title: 'Action',
      align: 'end',
      cell: ({ jobId }) => (
        <Button aria-haspopup="dialog" onClick={() => onRequeue(jobId)}>
          Requeue…
        </Button>
      ),
    },
  ]
}
