import { readFile } from 'node:fs/promises'
import { createOperator } from '@pawl/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

/** The operator on a table of keys that is partitioned, as docs/partitioning.md builds it. */

const page = await readFile(new URL('../../docs/partitioning.md', import.meta.url), 'utf8')
const blocks = [...page.matchAll(/^```sql\n-- (.*?)\n(.*?)^```$/gms)]
const sqlOf = (name: string) =>
  blocks.find(([, title]) => title === name)?.[2] ?? expect.fail(`no SQL '${name}'`)

/** A day that has its own partition, and how its keys begin. */
const DAY = '2031-05-14'
const DAYS_PARTITION = 'idempotency_keys_20310514'

let database: TestDatabase
let firstKey: string
beforeAll(async () => {
  database = await TestDatabase.createNew()
  await database.rows(sqlOf('partition the keys'))
  await database.rows(sqlOf('functions to create days'))
  const [row] = await database.rows<{ key: string }>(
    'SELECT pawl.first_key_of($1) AS key FROM pawl.create_day($1)',
    [DAY],
  )
  firstKey = row?.key ?? ''
})
afterAll(() => database.drop())

// A pool of one has all the connections that it may take, however busy the server is with other tests.
const operator = () => createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })

const find = async (check: string) => (await operator().doctor()).filter((each) => each.check === check)

test('doctor finds nothing wrong with it, and its primary key is one of the indexes', async () => {
  const wrong = (await operator().doctor()).filter(({ level }) => level !== 'ok')
  // The tests' own server runs without fsync.
  expect(wrong.filter(({ check }) => check !== 'durability')).toEqual([])
  expect(await find('indexes')).toMatchObject([{ detail: 'All 14 indexes are there and valid.' }])
})

/** Makes the server update its statistics now; by itself, it does so later. */
async function analyze(): Promise<void> {
  await database.rows('SELECT pg_stat_force_next_flush()')
  for (const partition of [DAYS_PARTITION, 'idempotency_keys_default']) {
    await database.rows(`ANALYZE pawl.${partition}`)
  }
}

test('doctor counts the rows of all partitions, and knows when one was vacuumed', async () => {
  expect((await find('bloat'))[0]?.detail).toContain(
    'about 0 dead rows and 0 live in 2 partitions. Last vacuumed: never',
  )
  // Few enough that no autovacuum comes in between.
  for (let n = 0; n < 6; n++) {
    await seedKey(database, { key: `${firstKey}-7${n}`, scope: n < 2 ? 'doomed' : 'kept' })
    await seedKey(database, { key: `other-${n}`, scope: n < 3 ? 'doomed' : 'kept' })
  }
  await database.rows(`DELETE FROM pawl.idempotency_keys WHERE scope = 'doomed'`)
  await analyze()
  // Not the exact numbers: what other sessions have counted reaches the server's statistics at some later time.
  expect((await find('bloat'))[0]?.detail).toMatch(
    /about [1-9]\d* dead rows and [1-9]\d* live in 2 partitions\. Last vacuumed: never/,
  )
  await database.rows(`VACUUM pawl.${DAYS_PARTITION}`)
  expect((await find('bloat'))[0]?.detail).toMatch(
    /and [1-9]\d* live in 2 partitions\. Last vacuumed: 2\d{3}-/,
  )
})

test('doctor misses an index that one partition lacks', async () => {
  await database.rows('DROP INDEX pawl.idempotency_keys_finished')
  await database.rows(
    `CREATE INDEX idempotency_keys_finished ON ONLY pawl.idempotency_keys (expires_at) WHERE status = 'finished'`,
  )
  expect(await find('indexes')).toMatchObject([
    { level: 'error', detail: expect.stringContaining('Invalid: idempotency_keys_finished') as string },
  ])
})

test('a key is found by its id, whichever partition it is in', async () => {
  const because = { actor: 'anna', reason: 'partitioned' }
  for (const key of [`${firstKey}-7f`, 'named otherwise']) {
    const keyId = await seedKey(database, { key, status: 'stuck' })
    expect(await operator().show({ keyId })).toMatchObject({ key: { keyId, key } })
    expect(await operator().unstick({ keyId }, because)).toMatchObject({ type: 'done', key: { key } })
  }
})
