/** A line of a CSV file (RFC 4180). */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Where a cell begins that a spreadsheet takes for a formula, and would run: keys, scopes and reasons are anybody's text. One that splits
 * lines at semicolons or tabs, as many do outside of English, takes quotes within a cell for text, and lines within it for lines.
 */
const FORMULA =
  /^(?=[\s"]*[=+\-@|%\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n])|(?<=[;\t\r\n])(?=(?:"|[^\S\r\n\t])*[=+\-@|%\uFF1D\uFF0B\uFF0D\uFF20])/g

function csvCell(text: string): string {
  const plain = text.replace(FORMULA, "'")
  return /[",\r\n']|^\s|\s$/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
