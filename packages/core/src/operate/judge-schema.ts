import { BLOAT_DEAD_ROWS } from '../limits.js'
import { EXPECTED_INDEXES } from '../storage/schema/read-indexes.js'
import { type Layout, sayLayout } from '../storage/schema/layout.js'
import type { Reference } from '../storage/schema/read-references.js'
import type { TableCare } from '../storage/schema/read-table-care.js'
import { SCHEMA_VERSION } from '../storage/schema/migrate.js'
import { migrateCall } from '../storage/schema/not-migrated.js'
import { firstOnPath } from '../storage/schema/search-path.js'
import type { Store } from '../storage/statement.js'
import type { Tables } from '../storage/tables.js'
import { counted, failing, ok, orOk, warning } from './finding.js'
import type { Finding } from './operator.js'

/**
 * `version` is null when the schema was never migrated; `damaged` when the history says that everything is there, but it
 * is not.
 */
export function judgeSchema(version: number | null | 'damaged', tables: Tables, layout: Layout): Finding {
  const { schema } = tables
  const migrate = `Run ${migrateCall(tables)}.`
  if (version === null) return failing('schema', `Schema '${schema}' does not have Pawl's tables.`, migrate)
  if (version === 'damaged') {
    return failing(
      'schema',
      `Schema '${schema}' says that it is at version ${SCHEMA_VERSION}, but tables or columns are missing.`,
      'Somebody has changed the tables by hand. Compare them with migrationSql().',
    )
  }
  const is = `Schema '${schema}' is at version ${version}; this code works with ${SCHEMA_VERSION}.`
  if (version < SCHEMA_VERSION) return failing('schema', is, migrate)
  if (version > SCHEMA_VERSION) {
    return failing('schema', is, 'Update @pawl/core here: a newer version of it has migrated the database.')
  }
  return ok('schema', `${is} Its layout is ${sayLayout(layout)}.`)
}

export function judgeSearchPath(store: Pick<Store, 'tables'>, role: string, isFirst: boolean): Finding {
  if (!isFirst)
    return ok('path', `Tables that role '${role}' creates without naming a schema do not go into Pawl's.`)
  const { detail, remedy } = firstOnPath(store, role)
  return warning('path', detail, remedy)
}

export function judgeIndexes(found: ReadonlyMap<string, boolean>, tables: Tables): Finding[] {
  const missing = EXPECTED_INDEXES.filter((name) => !found.has(name))
  const invalid = EXPECTED_INDEXES.filter((name) => found.get(name) === false)
  const slow = 'without them, statements read whole tables'
  return orOk(
    [
      missing.length === 0
        ? null
        : failing(
            'indexes',
            `Missing: ${missing.join(', ')}; ${slow}.`,
            `Create them again, as migrationSql() does${tables.schema === 'pawl' ? '' : ` for schema '${tables.schema}'`}.`,
          ),
      invalid.length === 0
        ? null
        : failing(
            'indexes',
            `Invalid: ${invalid.join(', ')}; ${slow}.`,
            'Run REINDEX INDEX CONCURRENTLY on each.',
          ),
    ],
    ok('indexes', `All ${EXPECTED_INDEXES.length} indexes are there and valid.`),
  )
}

/** Foreign keys of the application's tables: the reaper's deletes go through each of them. */
export function judgeReferences(references: readonly Reference[]): Finding[] {
  const wrong = references.flatMap(({ table, column, constraint, indexed, holds }) => [
    indexed
      ? null
      : warning(
          'references',
          `${table}.${column} refers to the keys and has no index: deleting an expired key reads all of ${table}.`,
          `CREATE INDEX CONCURRENTLY ON ${table} (${column}).`,
        ),
    holds
      ? warning(
          'references',
          `${constraint} of ${table} keeps keys from being deleted: the reaper puts them off again and again.`,
          `Declare it with ON DELETE SET NULL or ON DELETE CASCADE.`,
        )
      : null,
  ])
  return orOk(
    wrong,
    ok(
      'references',
      `${counted(references.length, 'foreign key')} to the keys, and ${references.length === 1 ? 'it does not prevent' : 'none prevents'} their deletion.`,
    ),
  )
}

export function judgeBloat(care: TableCare, { keys }: Tables): Finding {
  const { liveRows, deadRows, partitions, vacuumedMs } = care
  const last =
    vacuumedMs === null ? 'never, as far as the statistics show' : new Date(vacuumedMs).toISOString()
  const where = partitions === null ? '' : ` in ${counted(partitions, 'partition')}`
  const detail = `${keys} has about ${counted(deadRows, 'dead row')} and ${liveRows} live${where}. Last vacuumed: ${last}.`
  if (deadRows < BLOAT_DEAD_ROWS || deadRows <= liveRows) return ok('bloat', detail)
  return warning(
    'bloat',
    detail,
    `VACUUM ${keys}. Then make sure that autovacuum is on and that no transaction stays open for hours.`,
  )
}
