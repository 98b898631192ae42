/** A column: its heading, and on which side its cells stand. */
export interface Column {
  readonly heading: string
  readonly align: 'left' | 'right'
}

/** Aligned columns, two spaces apart, headings underlined. */
export function textTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const widths = columns.map(({ heading }, at) =>
    Math.max(heading.length, ...rows.map((row) => row[at]?.length ?? 0)),
  )
  const line = (cells: readonly string[]): string =>
    columns
      .map(({ align }, at) => {
        const cell = cells[at] ?? ''
        const width = widths[at] ?? 0
        return align === 'left' ? cell.padEnd(width) : cell.padStart(width)
      })
      .join('  ')
      .trimEnd()
  return [
    line(columns.map(({ heading }) => heading)),
    widths.map((width) => '─'.repeat(width)).join('  '),
    ...rows.map(line),
  ].join('\n')
}
