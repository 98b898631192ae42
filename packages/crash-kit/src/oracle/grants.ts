import { type History, KIT } from '../history.js'
import { isSteered, type KeyInsert, type KeyUpdate, keyWrites } from './key-writes.js'

/** How an actor got a fence. */
type Granting =
  /** By creating the row. */
  | { readonly how: 'reserved'; readonly write: KeyInsert }
  /** From a holder that is gone, to run the key or to mark it stuck. */
  | { readonly how: 'taken_over'; readonly write: KeyUpdate }
  /** From itself, to learn what became of a COMMIT. Only the lease changes besides. */
  | { readonly how: 'raised'; readonly write: KeyUpdate }
  /** By a person's intervention. */
  | { readonly how: 'steered'; readonly write: KeyUpdate }

export type Grant = Granting & {
  readonly keyId: string
  readonly fence: number
  readonly actor: string
  /** The previous holder; null for a new row. */
  readonly from: string | null
}

/** Returns whether fence or holder changed. */
export function isGrant({ before, after }: KeyUpdate): boolean {
  return before.fence !== after.fence || before.holder !== after.holder
}

/** Returns every grant of a lease, in order. */
export function grantsOf(history: Pick<History, 'commits'>): Grant[] {
  const grants: Grant[] = []
  const holders = new Map<string, string>()
  for (const write of keyWrites(history)) {
    if (write.op === 'DELETE' || (write.op === 'UPDATE' && (write.actor === KIT || !isGrant(write)))) continue
    const { actor, after } = write
    const from = holders.get(after.id) ?? null
    const granting: Granting =
      write.op === 'INSERT' ? { how: 'reserved', write } : { how: howOf(write, from), write }
    grants.push({ ...granting, keyId: after.id, fence: after.fence, actor, from })
    holders.set(after.id, actor)
  }
  return grants
}

function howOf(write: KeyUpdate, from: string | null): 'taken_over' | 'raised' | 'steered' {
  if (isSteered(write.commit)) return 'steered'
  const { before, after, actor } = write
  const isUntouched =
    before.attempts === after.attempts &&
    before.status === after.status &&
    before.recoveryPoint === after.recoveryPoint
  return actor === from && isUntouched ? 'raised' : 'taken_over'
}
