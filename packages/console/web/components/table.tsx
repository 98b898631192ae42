import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'
import type { QueryValues } from '../api/client.js'
import { Link } from '../router/link.js'
import { moveBetweenRows } from './move-between-rows.js'
import { useRowWindow } from './use-row-window.js'

/** A column of a table. */
export interface Column<Row> {
  /** Stable, and a part of a class name, so that style sheets can give it a width. */
  readonly id: string
  readonly title: string
  readonly cell: (row: Row) => ComponentChildren
  /** `end` for numbers and ages. */
  readonly align?: 'start' | 'end'
  /** Names the row: on narrow screens it is the card's heading. One column has it. */
  readonly isHeading?: boolean
}

interface TableProps<Row> {
  /** What it is, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  /** Null until they are there. */
  readonly rows: readonly Row[] | null
  readonly rowKey: (row: Row) => string
  /** Where a row leads; null for none. The heading is the link, and the whole row can be clicked. */
  readonly linkOf?: (row: Row) => { readonly to: string; readonly query?: QueryValues } | null
  /** While they are not there, as many lines of the same height stand for them. */
  readonly skeletonRows?: number
  /** For thousands of rows: only those in sight are drawn. All of them then have the same height. */
  readonly isWindowed?: boolean
}

/** A table on wide screens, and cards on narrow ones. Arrow keys go from row to row. */
export function Table<Row>(props: TableProps<Row>) {
  const { caption, columns, rows, rowKey, linkOf, skeletonRows = 6, isWindowed = false } = props
  const body = useRef<HTMLTableSectionElement>(null)
  const { first, last, above, below } = useRowWindow(body, rows?.length ?? 0, isWindowed)
  const cells = (row: Row) =>
    columns.map((column) => {
      const { id, title, align = 'start', isHeading = false } = column
      const link = isHeading ? (linkOf?.(row) ?? null) : null
      const content = column.cell(row)
      const inside =
        link === null ? (
          content
        ) : (
          <Link class="row-link" to={link.to} query={link.query}>
            {content}
          </Link>
        )
      const shared = { class: `cell cell-${id} cell-${align}`, 'data-title': title }
      return isHeading ? (
        <th key={id} scope="row" role="rowheader" {...shared}>
          {inside}
        </th>
      ) : (
        <td key={id} role="cell" {...shared}>
          {inside}
        </td>
      )
    })
  return (
    // The roles are said once more, because tables that are laid out in another way lose them.
    <table
      class={`table ${isWindowed ? 'table-windowed' : ''}`}
      role="table"
      aria-rowcount={isWindowed && rows !== null ? rows.length + 1 : undefined}
      aria-busy={rows === null}
    >
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ id, title, align = 'start' }) => (
            <th key={id} scope="col" role="columnheader" class={`cell cell-${id} cell-${align}`}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body} role="rowgroup" onKeyDown={moveBetweenRows}>
        {rows === null && <SkeletonRows count={skeletonRows} columns={columns.map(({ id }) => id)} />}
        {above > 0 && <Spacer height={above} />}
        {rows?.slice(first, last).map((row, index) => (
          <tr
            key={rowKey(row)}
            role="row"
            class="row"
            aria-rowindex={isWindowed ? first + index + 2 : undefined}
          >
            {cells(row)}
          </tr>
        ))}
        {below > 0 && <Spacer height={below} />}
      </tbody>
    </table>
  )
}

function SkeletonRows({ count, columns }: { readonly count: number; readonly columns: readonly string[] }) {
  return Array.from({ length: count }, (_, index) => (
    <tr key={index} class="row row-skeleton" aria-hidden="true">
      {columns.map((id) => (
        <td key={id} class={`cell cell-${id}`}>
          <span class="skeleton" />
        </td>
      ))}
    </tr>
  ))
}

/** Stands for the rows that are not drawn. One cell: columns that are not shown would come back by its span. */
function Spacer({ height }: { readonly height: number }) {
  return (
    <tr class="row-spacer" aria-hidden="true" style={{ height: `${height}px` }}>
      <td />
    </tr>
  )
}
