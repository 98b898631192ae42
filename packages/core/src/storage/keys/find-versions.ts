import { bothUnfinished, FOR_A_COMPLETER } from './unfinished.js'
import { defineStatement, type Store } from '../statement.js'

/** A version that has keys in flight. */
export interface VersionInFlight {
  readonly pipeline: string
  readonly version: number
  readonly definitionHash: string
  readonly count: number
}

const findVersionsStatement = defineStatement(
  'find_versions',
  (tables) => `
  SELECT k.pipeline, k.version, k.definition_hash, count(*) AS count
    FROM ${bothUnfinished(tables, FOR_A_COMPLETER)}
   GROUP BY k.pipeline, k.version, k.definition_hash ORDER BY k.pipeline, k.version, k.definition_hash`,
)

/** What unfinished keys are pinned to. Those of atomic handlers are left out: no engine registers them. */
export async function findVersions(store: Store): Promise<VersionInFlight[]> {
  const { rows } = await findVersionsStatement(store, [])
  return rows.map((row) => ({
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    definitionHash: row['definition_hash'] ?? '',
    count: Number(row['count']),
  }))
}
