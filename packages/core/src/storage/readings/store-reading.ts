import { defineStatement, type Store } from '../statement.js'

const storeReadingStatement = defineStatement(
  'store_reading',
  ({ readings }) => `UPDATE ${readings} AS r SET reading = $1::json WHERE r.id = 1`,
)

/** Keeps what was read, for all others. */
export async function storeReading(store: Store, readingJson: string): Promise<void> {
  await storeReadingStatement(store, [readingJson])
}
