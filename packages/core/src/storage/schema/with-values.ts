/** Writes a statement with its values in it, for a server that is told what to do in words. */
export function withValues(text: string, values: readonly unknown[]): string {
  return text.replaceAll(/\$(\d+)/g, (_, nth: string) => literal(values[Number(nth) - 1]))
}

/** A constant of SQL that no value can break out of, whatever `standard_conforming_strings` is set to. */
function literal(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  const text = Array.isArray(value) ? `{${value.map(element).join(',')}}` : String(value)
  const quoted = `'${text.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`
  return text.includes('\\') ? ` E${quoted}` : quoted
}

/** An element of an array, as PostgreSQL reads it. */
function element(value: unknown): string {
  return value === null ? 'NULL' : `"${String(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
