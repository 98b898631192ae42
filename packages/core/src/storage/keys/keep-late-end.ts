import { HELD, heldBy, type Hold, WRITTEN } from './hold.js'
import { type Intent, INTENT_PHASE } from './key-row.js'
import { sealIntent, sealText } from '../sealed-values.js'
import { defineStatement, NOW, statusIs, type Store } from '../statement.js'

/** Whether what the row knows is about this phase's call, both before this statement and after it. */
const IS_OF_PHASE = `coalesce(${INTENT_PHASE} = $7::text, $8::boolean)`

const keepLateEndStatement = defineStatement(
  'keep_late_end',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET intent = CASE WHEN ${IS_OF_PHASE} THEN coalesce($5::json, k.intent) ELSE k.intent END,
         last_error = CASE WHEN ${IS_OF_PHASE} THEN coalesce($6, k.last_error) ELSE k.last_error END,
         updated_at = ${NOW}, ${WRITTEN}
   WHERE ${HELD} AND ${statusIs('stuck')}
  RETURNING ${IS_OF_PHASE} AS kept`,
)

/**
 * Keeps the result of a call whose key this very holder made stuck while the call was under way. `of_another`: the key is
 * stuck because of another call, and a row holds what is known about one call only. `decided`: somebody has decided about
 * it since.
 */
export async function keepLateEnd(
  store: Store,
  hold: Hold,
  late: {
    readonly phase: string
    /** Whether it may be kept where the row knows of no call at all. */
    readonly alsoUndeclared: boolean
    readonly intent: Intent | null
    readonly lastError: string | null
  },
): Promise<'kept' | 'of_another' | 'decided'> {
  const { rows } = await keepLateEndStatement(store, [
    ...heldBy(hold),
    sealIntent(store.tables, hold, late.intent),
    sealText(store.tables, hold, 'last_error', late.lastError),
    late.phase,
    late.alsoUndeclared,
  ])
  if (rows[0] === undefined) return 'decided'
  return rows[0]['kept'] === 't' ? 'kept' : 'of_another'
}
