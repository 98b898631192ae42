import { uuidV7 } from '../../uuid-v7.js'
import type { Note } from './note.js'
import { defineStatement, NOW, type Store } from '../statement.js'

const noteRoundStatement = defineStatement(
  'note_round',
  ({ interventions }) => `
  INSERT INTO ${interventions} (id, scope, action, actor, reason, detail, created_at)
  VALUES ($1::uuid, '', $2, $3, $4, $5::json, ${NOW})`,
)

/**
 * Notes something that takes many statements and is about no single key: once before the first of them, and once more with the
 * result. Notes are added, never changed.
 */
export async function noteRound(store: Store, action: 'reap' | 'erase', note: Note): Promise<void> {
  await noteRoundStatement(store, [uuidV7(), action, note.actor, note.reason, note.detailJson])
}
