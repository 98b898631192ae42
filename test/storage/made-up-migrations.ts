import type pg from 'pg'
import type { Migration } from '../../packages/core/src/storage/schema/apply-migrations.js'
import { type MigrateOptions, migrateAndWarn } from '../../packages/core/src/storage/schema/migrate.js'
import { initial } from '../../packages/core/src/storage/schema/migrations/001-initial.js'

const REVISION = /^ {2}revision .*\n/m
const COMMENT = /^COMMENT ON COLUMN .*"revision" IS .*;$/m

/** The schema as it might have been before: one column and one index less. */
const older: Migration = (tables, layout) =>
  initial(tables, layout)
    .replace(REVISION, '')
    .replace(COMMENT, '')
    .replace(/^CREATE INDEX interventions_by_time .*\n/m, '')

/** From there to the schema as it is. */
const toPresent: Migration = (tables, layout) => {
  const [comment = ''] = COMMENT.exec(initial(tables, layout)) ?? []
  return `ALTER TABLE ${tables.keys} ADD COLUMN revision bigint NOT NULL DEFAULT 1;
${comment}
CREATE INDEX interventions_by_time ON ${tables.interventions} (created_at);`
}

/** Makes a schema of the made-up older version. */
export async function migrateToOlder(pool: pg.Pool, options: MigrateOptions): Promise<number> {
  return (await migrateAndWarn(pool, options, [older])).applied
}

/** Brings such a schema up to date, as the next version of Pawl would. */
export async function migrateFromOlder(pool: pg.Pool, options: MigrateOptions): Promise<number> {
  return (await migrateAndWarn(pool, options, [older, toPresent])).applied
}
