import { KEYS_READ_PER_LOOK } from '../../limits.js'
import { type DueKey, isDueBy, readDueKey, type RunnableVersion } from './due-keys.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { byScope, type ScopePage, type ScopePlace } from '../scope-place.js'
import { defineStatement, momentText, type Store } from '../statement.js'

/** The status is written as the index has it. The index has stuck keys as well, and those of versions that are not known here. */
const findUnattendedByScopeStatement = defineStatement(
  'find_unattended_by_scope',
  ({ keys }) => `
  SELECT k.id, k.scope, k.key, k.pipeline, k.version, k.definition_hash, ${momentText('k.created_at')} AS created_at,
         (k.status = 'running' AND k.kind = 'pipeline' AND ${isDueBy('$4')}) AS is_due
    FROM ${keys} AS k
   WHERE k.status <> 'finished' AND (k.scope, k.created_at, k.id) > ($1::text, $2::timestamptz, $3::uuid)
   ORDER BY k.scope, k.created_at, k.id LIMIT ${KEYS_READ_PER_LOOK}`,
)

/**
 * Due keys of runnable versions, scope by scope and oldest first in each, from a place on. It locks nothing, and reads so many rows
 * whatever they are. The longest of the leases decides for all: a key that is found is looked at again before it is taken.
 */
export async function findUnattendedByScope(
  store: Store,
  versions: readonly RunnableVersion[],
  { scope, at, id }: ScopePlace,
): Promise<ScopePage<DueKey>> {
  const leaseBoundMs = Math.max(0, ...versions.map((version) => version.leaseBoundMs))
  const found = await readAllShards(
    findUnattendedByScopeStatement,
    store,
    [scope, at, id, leaseBoundMs],
    store.tables.keys,
  )
  const rows = found
    .map((row) => ({ row, place: placeOf(row) }))
    .toSorted((a, b) => byScope(a.place, b.place))
    .slice(0, KEYS_READ_PER_LOOK)
  const due = rows.filter(
    ({ row }) => row['is_due'] === 't' && versions.some((version) => isOf(row, version)),
  )
  const last = found.length < KEYS_READ_PER_LOOK ? null : (rows.at(-1)?.place ?? null)
  return { due: due.map(({ row }) => readDueKey(row)), last }
}

type Row = Readonly<Record<string, string | null>>

function placeOf(row: Row): ScopePlace {
  return { scope: row['scope'] ?? '', at: row['created_at'] ?? '', id: row['id'] ?? '', seq: 0 }
}

function isOf(row: Row, { pipeline, version, definitionHash }: RunnableVersion): boolean {
  const isVersion = row['pipeline'] === pipeline && Number(row['version']) === version
  return isVersion && (definitionHash === null || row['definition_hash'] === definitionHash)
}
