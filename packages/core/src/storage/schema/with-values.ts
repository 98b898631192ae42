type Scalar = string | number | null

/** What can be written. */
export type Value = Scalar | readonly Scalar[]

/** Writes a statement with its values in it, for a server that is told what to do in words. */
export function withValues(text: string, values: readonly Value[]): string {
  return text.replaceAll(/\$(\d+)/g, (_, nth: string) => literal(values[Number(nth) - 1] ?? null))
}

/** A constant of SQL that no value can break out of, whatever `standard_conforming_strings` is set to. */
function literal(value: Value): string {
  if (value === null) return 'NULL'
  const text = typeof value === 'object' ? `{${value.map(element).join(',')}}` : String(value)
  const quoted = `'${text.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`
  return text.includes('\\') ? ` E${quoted}` : quoted
}

/** An element of an array, as PostgreSQL reads it. */
function element(value: Scalar): string {
  return value === null ? 'NULL' : `"${String(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
