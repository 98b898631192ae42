import { type PawlChannel, type PawlMessages, subscribe } from '@pawl/core'
import { expect, onTestFinished } from 'vitest'
import type pg from 'pg'
import type { TestDatabase } from './test-database.js'

/** A door that a test opens. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open: () => void
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

/** Every message of a channel from now to the end of the test. */
export function hear<Name extends PawlChannel>(name: Name): PawlMessages[Name][] {
  const messages: PawlMessages[Name][] = []
  onTestFinished(subscribe(name, (message) => void messages.push(message)))
  return messages
}

/** Resolves when this many backends under an application_name wait for a lock. */
export async function waitingForLock(
  database: TestDatabase,
  applicationName: string,
  count = 1,
): Promise<void> {
  const sql = `SELECT count(*)::int AS waiting FROM pg_stat_activity, pg_sleep(0.005)
                WHERE application_name = $1 AND wait_event_type = 'Lock'`
  for (;;) {
    const [row] = await database.rows<{ waiting: number }>(sql, [applicationName])
    if ((row?.waiting ?? 0) >= count) return
  }
}

/** Expects that every connection is back in the pool, that none is inside a transaction, and that the pool still works. */
export async function expectWholePool(
  pool: pg.Pool,
  database: TestDatabase,
  applicationName: string,
): Promise<void> {
  expect({ out: pool.totalCount - pool.idleCount, waiting: pool.waitingCount }).toEqual({
    out: 0,
    waiting: 0,
  })
  const sql = `SELECT count(*)::int AS open FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in%'`
  expect(await database.rows(sql, [applicationName])).toEqual([{ open: 0 }])
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
}
