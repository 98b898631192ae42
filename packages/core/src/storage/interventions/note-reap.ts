import { uuidV7 } from '../../uuid-v7.js'
import type { Note } from './note.js'
import { defineStatement, NOW, type Store } from '../statement.js'

const noteReapStatement = defineStatement(
  'note_reap',
  ({ interventions }) => `
  INSERT INTO ${interventions} (id, scope, action, actor, reason, detail, created_at)
  VALUES ($1::uuid, '', 'reap', $2, $3, $4::json, ${NOW})`,
)

/**
 * Notes that somebody has expired rows deleted, which takes many statements and is about no single key: once before the
 * first of them, and once more with the result. Notes are added, never changed.
 */
export async function noteReap(store: Store, note: Note): Promise<void> {
  await noteReapStatement(store, [uuidV7(), note.actor, note.reason, note.detailJson])
}
