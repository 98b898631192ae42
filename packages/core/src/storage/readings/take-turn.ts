import { defineStatement, epochSeconds, NOW, type Store } from '../statement.js'

/** Who comes second waits for who is first, for as long as this statement takes, and finds that the turn is taken. */
const takeTurnStatement = defineStatement(
  'take_reading_turn',
  ({ readings }) => `
  INSERT INTO ${readings} AS u (id, taken_at) VALUES (1, ${NOW})
      ON CONFLICT (id) DO UPDATE SET taken_at = excluded.taken_at
   WHERE abs(${epochSeconds('excluded.taken_at')} - ${epochSeconds('u.taken_at')}) >= ($1::numeric / 1000)
  RETURNING u.id`,
)

/** Whether the turn to read is ours: nobody has begun to read for so long. */
export async function takeTurn(store: Store, everyMs: number): Promise<boolean> {
  const { rows } = await takeTurnStatement(store, [everyMs])
  return rows.length === 1
}
