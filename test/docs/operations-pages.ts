import { readFile } from 'node:fs/promises'

export const runbook = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8')
export const reference = await readFile(
  new URL('../../docs/operations-reference.md', import.meta.url),
  'utf8',
)

/** Returns the block of SQL in the section with that heading. */
export function sqlIn(page: string, heading: string): string {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const sql = /^```sql\n(.*?)^```$/ms.exec(section)?.[1]
  if (sql === undefined) throw new Error(`the page has no SQL under '${heading}'`)
  return sql
}
