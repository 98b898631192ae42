import { defineStatement, type Store } from '../statement.js'

const readClockStatement = defineStatement(
  'read_clock',
  () => `SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000) AS now_ms`,
)

/** The database's clock, rounded up, so that everything that has happened lies before it. */
export async function readClock(store: Store): Promise<number> {
  const { rows } = await readClockStatement(store, [])
  return Number(rows[0]?.['now_ms'])
}
