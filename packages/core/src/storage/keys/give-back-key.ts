import { HELD, heldBy, type Hold, WRITTEN } from './hold.js'
import type { Intent } from './key-row.js'
import { sealIntent, sealText } from '../sealed-values.js'
import { defineStatement, msInterval, NOW, statusIs, type Store } from '../statement.js'

/** How a key is given back. */
export interface GiveBack {
  /** Leaves lease and intent as they are, because a call of ours is still under way and will report its result. */
  readonly keepLease: boolean
  readonly runAfterMs: number
  /** `attempt` counts towards the cap; `retry` lengthens the back-off; `nothing` is as if the key had not been granted. */
  readonly countsAs: 'attempt' | 'retry' | 'nothing'
  readonly raiseEpoch: boolean
  readonly intent: Intent | null
  readonly lastError: string | null
}

const giveBackKeyStatement = defineStatement(
  'give_back_key',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET lease_until = CASE WHEN $5::boolean THEN k.lease_until END,
         run_after = ${NOW} + ${msInterval('$6')},
         attempts = greatest(k.attempts - $7::integer, 0), retries = k.retries + $8::integer,
         effect_epoch = k.effect_epoch + $9::integer,
         intent = CASE WHEN $5::boolean THEN k.intent ELSE $10::json END,
         last_error = coalesce($11, k.last_error), updated_at = ${NOW}, ${WRITTEN}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = $12
  RETURNING k.id`,
)

/** Gives the key back. Returns false when we were fenced off; the new holder is then left alone. */
export async function giveBackKey(store: Store, hold: Hold, giveBack: GiveBack): Promise<boolean> {
  const { rows } = await giveBackKeyStatement(store, [
    ...heldBy(hold),
    giveBack.keepLease,
    giveBack.runAfterMs,
    giveBack.countsAs === 'attempt' ? 0 : 1,
    giveBack.countsAs === 'retry' ? 1 : 0,
    giveBack.raiseEpoch ? 1 : 0,
    sealIntent(store.tables, hold, giveBack.intent),
    sealText(store.tables, hold, 'last_error', giveBack.lastError),
    hold.recoveryPoint,
  ])
  return rows.length === 1
}
