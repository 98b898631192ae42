import { defineStatement, type Store } from '../statement.js'

const writeOutStatement = defineStatement(
  'write_out',
  () => `SELECT pg_logical_emit_message(true, 'pawl', '')`,
)

/** Comes back once all that was committed before is on the disk, however it was committed. */
export async function writeOut(store: Store): Promise<void> {
  await writeOutStatement(store, [])
}
