import type pg from 'pg'
import {
  readSourceSequences,
  readSourceTables,
  type SourceSequence,
  type SourceTable,
} from './source-tables.js'
import {
  type ForeignKey,
  type IdentityColumn,
  readForeignKeys,
  readIdentityColumns,
  readIndexes,
  readKeyConstraints,
  readSequenceDefaults,
  type SequenceDefault,
  type TablePart,
} from './table-parts.js'

/** Everything that is to be copied. */
export interface Blueprint {
  readonly tables: readonly SourceTable[]
  readonly sequences: readonly SourceSequence[]
  readonly defaults: readonly SequenceDefault[]
  readonly identities: readonly IdentityColumn[]
  readonly constraints: readonly TablePart[]
  readonly indexes: readonly TablePart[]
  readonly foreignKeys: readonly ForeignKey[]
}

/** Reads what `searchPath` shows. Afterwards the session has its own search path again. */
export async function readBlueprint(client: pg.PoolClient, searchPath: string): Promise<Blueprint> {
  const { rows } = await client.query<{ path: string }>(`SELECT current_setting('search_path') AS path`)
  await setSearchPath(client, searchPath)
  const tables = await readSourceTables(client)
  const sequences = await readSourceSequences(client, tables)
  await setSearchPath(client, '')
  const blueprint = {
    tables,
    sequences,
    defaults: await readSequenceDefaults(client, tables),
    identities: await readIdentityColumns(client, tables),
    constraints: await readKeyConstraints(client, tables),
    indexes: await readIndexes(client, tables),
    foreignKeys: await readForeignKeys(client, tables),
  }
  await setSearchPath(client, rows[0]?.path ?? '')
  return blueprint
}

async function setSearchPath(client: pg.PoolClient, path: string): Promise<void> {
  await client.query(`SELECT set_config('search_path', $1, true)`, [path])
}
