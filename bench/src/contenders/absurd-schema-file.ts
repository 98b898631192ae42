/**
 * The variable that names Absurd's schema file, `sql/absurd.sql` of its repository. It is in none of its npm packages, so the
 * lockfile cannot bring it.
 */
const ABSURD_SQL = 'ABSURD_SQL'

export const hasAbsurdSchema = (): boolean => (process.env[ABSURD_SQL] ?? '') !== ''

export function absurdSchemaFile(): string {
  const file = process.env[ABSURD_SQL] ?? ''
  if (file === '') throw new Error(`${ABSURD_SQL} has to name Absurd's schema file.`)
  return file
}
