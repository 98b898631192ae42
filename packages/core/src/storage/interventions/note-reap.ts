import type { Note } from './note.js'
import { defineStatement, type Store } from '../statement.js'

const noteReapStatement = defineStatement(
  'note_reap',
  ({ interventions }) => `
  INSERT INTO ${interventions} (action, actor, reason, detail) VALUES ('reap', $1, $2, $3::json)`,
)

/**
 * Notes that somebody has expired rows deleted, which takes many statements and is about no single key: once before the
 * first of them, and once more with the result. Notes are added, never changed.
 */
export async function noteReap(store: Store, note: Note): Promise<void> {
  await noteReapStatement(store, [note.actor, note.reason, note.detailJson])
}
