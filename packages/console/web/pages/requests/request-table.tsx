import { Badge } from '../../components/badge.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Age } from '../../components/moment.js'
import { type Column, Table } from '../../components/table.js'
import { conditionOf } from '../../format/condition.js'
import { formatCount } from '../../format/count.js'
import { useNow } from '../../live/use-now.js'
import type { RequestRow } from './use-request-pages.js'

interface RequestTableProps {
  readonly caption: string
  /** Null until they are there. */
  readonly rows: readonly RequestRow[] | null
  readonly isWindowed?: boolean
  readonly skeletonRows?: number
}

const COLUMNS: readonly Column<RequestRow>[] = [
  {
    id: 'key',
    title: 'Key',
    isHeading: true,
    cell: ({ key }) => <ForeignText class="id" text={key} isShort />,
  },
  { id: 'scope', title: 'Scope', cell: ({ scope }) => <ForeignText text={scope} isShort /> },
  {
    id: 'condition',
    title: 'Condition',
    cell: (row) => <RowCondition row={row} />,
  },
  {
    id: 'pipeline',
    title: 'Pipeline',
    cell: ({ pipeline, version }) => (
      <>
        <ForeignText text={pipeline} />
        <span class="muted"> {version}</span>
      </>
    ),
  },
  { id: 'point', title: 'Point', cell: ({ point }) => <ForeignText text={point} isShort /> },
  { id: 'age', title: 'Age', align: 'end', cell: ({ createdAt }) => <Age since={createdAt} /> },
  { id: 'fence', title: 'Fence', align: 'end', cell: ({ fence }) => formatCount(fence) },
  {
    id: 'error',
    title: 'Last error or answer',
    cell: ({ lastError, responseStatus }) =>
      responseStatus === null ? (
        <ForeignText class="muted" text={lastError ?? ''} isShort />
      ) : (
        <span class="muted">answered {responseStatus}</span>
      ),
  },
]

/** Requests as rows. Each leads to its page. */
export function RequestTable({ caption, rows, isWindowed = false, skeletonRows = 12 }: RequestTableProps) {
  return (
    <div class="request-table">
      <Table
        caption={caption}
        columns={COLUMNS}
        rows={rows}
        rowKey={({ keyId }) => keyId}
        linkOf={({ keyId }) => ({ to: `requests/${keyId}` })}
        isWindowed={isWindowed}
        skeletonRows={skeletonRows}
      />
    </div>
  )
}

/** It changes by itself when a lease runs out. */
function RowCondition({ row }: { readonly row: RequestRow }) {
  return <Badge condition={conditionOf(row, useNow())} detail={row.stuckReason} />
}
