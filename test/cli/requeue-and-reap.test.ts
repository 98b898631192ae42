import { randomUUID } from 'node:crypto'
import type { Engine } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { buryJobs, engineOn, ORDER, placeOrder } from './filled-database.js'
import { pawlOn } from './pawl.js'

let database: TestDatabase
let engine: Engine<Database>
beforeEach(async () => {
  database = await TestDatabase.create()
  engine = engineOn(database)
})
afterEach(async () => {
  await engine.close()
  await database.drop()
})

const REASON = ['--reason', 'Ticket 4711']
const REQUEST = { scope: 'shop', key: 'k', input: ORDER }

async function deadIds(): Promise<string[]> {
  const { jobs } = JSON.parse((await pawlOn(database, 'dead', '--json')).out) as {
    jobs: { jobId: string }[]
  }
  return jobs.map(({ jobId }) => jobId)
}

describe('requeue', () => {
  // There are two dead jobs.
  beforeEach(async () => {
    for (const key of ['a', 'b']) await engine.execute(placeOrder, { ...REQUEST, key })
    await buryJobs(engine, 'mailbox is full')
  })

  test('delivers the jobs with the given ids again', async () => {
    const [first = '', second = ''] = await deadIds()
    expect(await pawlOn(database, 'requeue', first, first, ...REASON)).toMatchObject({
      exit: 0,
      out: 'Requeued 1 job.\n',
    })
    expect(await deadIds()).toEqual([second])
    // The first is waiting now, the second is dead, and the third never existed.
    const mixed = await pawlOn(database, 'requeue', first, second, ...REASON, '--json')
    expect(mixed.exit).toBe(3)
    expect(JSON.parse(mixed.out)).toEqual({ requeued: 1, notDead: 1 })
    const none = await pawlOn(database, 'requeue', randomUUID(), ...REASON)
    expect(none).toMatchObject({
      exit: 1,
      out: '',
      err: expect.stringContaining('None of these is a dead job'),
    })
  })

  test('delivers the jobs with a name again', async () => {
    expect((await pawlOn(database, 'requeue', '--name', 'other', ...REASON)).out).toBe(
      "Requeued 0 jobs.\nNo dead job is named 'other'.\n",
    )
    expect(await deadIds()).toHaveLength(2)
    expect((await pawlOn(database, 'requeue', '--name', 'send_receipt', ...REASON)).out).toBe(
      'Requeued 2 jobs.\n',
    )
    expect(await deadIds()).toEqual([])
  })

  test('delivers all of them again, and records who did it and why', async () => {
    const argv = ['requeue', '--all', '--reason', 'mailbox emptied', '--actor', 'bob']
    expect(await pawlOn(database, ...argv)).toMatchObject({ exit: 0, out: 'Requeued 2 jobs.\n' })
    expect(await deadIds()).toEqual([])
    const notes = await database.rows('SELECT DISTINCT action, actor, reason FROM pawl.interventions')
    expect(notes).toEqual([{ action: 'requeue', actor: 'bob', reason: 'mailbox emptied' }])
  })
})

test('reap deletes what has expired, and nothing else', async () => {
  for (const key of ['old', 'new']) await engine.execute(placeOrder, { ...REQUEST, key })
  await database.rows(
    `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 s' WHERE key = 'old'`,
  )
  const { exit, out } = await pawlOn(database, 'reap')
  expect(exit).toBe(0)
  expect(out).toMatch(/^Deleted keys +1$/m)
  expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([{ key: 'new' }])
  const json = await pawlOn(database, 'reap', '--json', '--reason', 'disk is full')
  expect(JSON.parse(json.out)).toMatchObject({ deleted: 0 })
})
