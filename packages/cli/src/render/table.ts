import type { Paint, Style } from './paint.js'
import { safeText } from './safe-text.js'
import { textWidth } from './text-width.js'

/** A cell: its text, or its text with a style. */
export type Cell = string | { readonly text: string; readonly style: Style }

interface Column {
  readonly title: string
  /** Numbers are aligned to the right. */
  readonly align?: 'right'
}

const GAP = '  '

/** A line of titles and a line per row. Cells are made safe here, so that none can break the table. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): readonly string[] {
  const safe = rows.map((row) => row.map(safeCell))
  const widths = columns.map(({ title }, at) =>
    Math.max(textWidth(title), ...safe.map((row) => textWidth(row[at]?.text ?? ''))),
  )
  const line = (cells: readonly { readonly text: string; readonly style: Style | null }[]) =>
    columns
      .map(({ align }, at) => {
        const { text, style } = cells[at] ?? { text: '', style: null }
        const space = ' '.repeat((widths[at] ?? 0) - textWidth(text))
        const painted = style === null ? text : paint(style, text)
        return align === 'right' ? space + painted : painted + space
      })
      .join(GAP)
      .trimEnd()
  const head = columns.map(({ title }) => ({ text: title, style: 'dim' as const }))
  return [line(head), ...safe.map(line)]
}

/** `name  value` lines, with the names in a column of their own. */
export function facts(
  pairs: readonly (readonly [name: string, value: Cell])[],
  paint: Paint,
): readonly string[] {
  const width = Math.max(...pairs.map(([name]) => textWidth(name)))
  return pairs.map(([name, value]) => {
    const { text, style } = safeCell(value)
    const space = ' '.repeat(width - textWidth(name))
    return `${paint('dim', name)}${space}${GAP}${style === null ? text : paint(style, text)}`
  })
}

function safeCell(cell: Cell): { readonly text: string; readonly style: Style | null } {
  return typeof cell === 'string'
    ? { text: safeText(cell), style: null }
    : { text: safeText(cell.text), style: cell.style }
}
