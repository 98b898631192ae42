import { defineStatement, type Store } from '../statement.js'

const writeOutStatement = defineStatement(
  'write_out',
  () => `SELECT pg_logical_emit_message(true, 'pawl', '')`,
)

/** Returns once everything that was committed before is on disk, however it was committed. */
export async function writeOut(store: Store): Promise<void> {
  await writeOutStatement(store, [])
}
