import { type Change, type Commit, type History, KIT } from '../history.js'
import { type KeyState, readKey } from './key-state.js'

interface Written {
  readonly commit: Commit
  readonly actor: string
  /** The database's clock. */
  readonly atMs: number
}

/** A committed write of a key's row. */
export type KeyWrite = KeyInsert | KeyUpdate | KeyDelete

export interface KeyInsert extends Written {
  readonly op: 'INSERT'
  readonly before: null
  readonly after: KeyState
}

export interface KeyUpdate extends Written {
  readonly op: 'UPDATE'
  readonly before: KeyState
  readonly after: KeyState
}

export interface KeyDelete extends Written {
  readonly op: 'DELETE'
  readonly before: KeyState
  readonly after: null
}

/** Returns every write of a key's row, in order. */
export function keyWrites({ commits }: Pick<History, 'commits'>): KeyWrite[] {
  return commits.flatMap(keyWritesIn)
}

/** Returns those of one transaction. */
export function keyWritesIn(commit: Commit): KeyWrite[] {
  return commit.changes.filter(isKeyChange).flatMap((change): KeyWrite[] => {
    const { before, after, atMs } = change
    const written: Written = { commit, actor: commit.actor, atMs }
    if (after === null)
      return before === null ? [] : [{ ...written, op: 'DELETE', before: readKey(before), after }]
    if (before === null) return [{ ...written, op: 'INSERT', before, after: readKey(after) }]
    return [{ ...written, op: 'UPDATE', before: readKey(before), after: readKey(after) }]
  })
}

/** Returns the updates that were not made by the kit: those that the protocol is responsible for. */
export function updatesByActors(history: Pick<History, 'commits'>): KeyUpdate[] {
  return keyWrites(history).filter(
    (write): write is KeyUpdate => write.op === 'UPDATE' && write.actor !== KIT,
  )
}

/** Returns the updates that move the recovery point, or finish the key. */
export function advancesIn(commit: Commit): KeyUpdate[] {
  return keyWritesIn(commit).filter((write): write is KeyUpdate => write.op === 'UPDATE' && isAdvance(write))
}

function isAdvance({ before, after }: KeyUpdate): boolean {
  return (
    before.recoveryPoint !== after.recoveryPoint ||
    (before.status !== 'finished' && after.status === 'finished')
  )
}

/** Returns whether a person did it: an intervention is recorded in the same transaction. */
export function isSteered({ changes }: Commit): boolean {
  return changes.some(({ framework, table, op }) => framework && table === 'interventions' && op === 'INSERT')
}

/** Returns the last state of each row that a key has had, by the row's id. A key that was reaped and sent again has had two. */
export function lastStates(
  history: Pick<History, 'commits'>,
): Map<string, { state: KeyState; deleted: boolean }> {
  const states = new Map<string, { state: KeyState; deleted: boolean }>()
  for (const { before, after } of keyWrites(history)) {
    const state = after ?? before
    if (state !== null) states.set(state.id, { state, deleted: after === null })
  }
  return states
}

/** Returns the ids of the rows that the key has had, in order. */
export function incarnations(history: Pick<History, 'commits'>): string[] {
  return keyWrites(history).flatMap(({ op, after }) => (op === 'INSERT' ? [after.id] : []))
}

function isKeyChange({ framework, table }: Change): boolean {
  return framework && table === 'idempotency_keys'
}
