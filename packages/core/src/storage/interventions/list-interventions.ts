import { type InterventionRow, readInterventionRow } from './find-interventions.js'
import { defineStatement, epochMs, epochUs, momentOfUs, type Store } from '../statement.js'

/** Which interventions to list. Null stands for any. */
export interface InterventionListing {
  readonly fromUs: string | null
  /** Not included. */
  readonly toUs: string | null
  readonly action: string | null
  readonly actor: string | null
  readonly scope: string | null
  /** Null for the first page. */
  readonly after: InterventionCursor | null
  readonly limit: number
}

/** How far the list has been read: up to and including this one. */
interface InterventionCursor {
  readonly atUs: string
  readonly id: string
}

/** An intervention, what it was about, and where the list goes on after it. */
export interface ListedIntervention extends InterventionRow {
  readonly id: string
  readonly keyId: string | null
  /** Empty for what is about no single key. */
  readonly scope: string
  readonly key: string | null
  readonly cursor: InterventionCursor
}

const listInterventionsStatement = defineStatement(
  'list_interventions',
  ({ interventions }) => `
  SELECT i.id, i.key_id, i.scope, i.key, i.action, i.actor, i.reason, i.detail, ${epochMs('i.created_at')} AS created_ms,
         ${epochUs('i.created_at')} AS at_us
    FROM ${interventions} AS i
   WHERE (i.created_at, i.id) < (${momentOfUs('$6')}, $7::uuid)
     AND i.created_at >= ${momentOfUs('$1')} AND i.created_at < ${momentOfUs('$2')}
     AND ($3::text IS NULL OR i.action = $3) AND ($4::text IS NULL OR i.actor = $4)
     AND ($5::text IS NULL OR i.scope = $5)
   ORDER BY i.created_at DESC, i.id DESC LIMIT $8::integer`,
)

/** Centuries away, and still exact as a number. */
const [EARLIEST_US, LATEST_US] = ['-1000000000000000', '9000000000000000']
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** What people did, the latest first. */
export async function listInterventions(
  store: Store,
  listing: InterventionListing,
): Promise<ListedIntervention[]> {
  const { fromUs, toUs, action, actor, scope, after, limit } = listing
  const { rows } = await listInterventionsStatement(store, [
    fromUs ?? EARLIEST_US,
    toUs ?? LATEST_US,
    action,
    actor,
    scope,
    after?.atUs ?? LATEST_US,
    after?.id ?? LAST_ID,
    limit,
  ])
  return rows.map((row) => {
    const id = row['id'] ?? ''
    const of = { keyId: row['key_id'] ?? null, scope: row['scope'] ?? '', key: row['key'] ?? null }
    const named = { id: of.keyId ?? '', scope: of.scope, key: of.key ?? '' }
    return {
      ...readInterventionRow(row, store.tables, named),
      ...of,
      id,
      cursor: { atUs: row['at_us'] ?? '0', id },
    }
  })
}
