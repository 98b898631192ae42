import { respond, retryLater } from '@pawl/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createEngine, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { pawlOn } from './pawl.js'

/** Calls that answer late, outcomes that stay unknown, and keys that have been retried for a long time. */

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
  const letGo = gate()
  const settings = { version: 1, callTimeoutMs: 50 }
  const late = pipeline<null>({ name: 'late', ...settings })
    .foreign('faxed', {
      guarantee: 'at_most_once',
      call: async () => {
        await letGo.opened
        return { id: 'fax-4242' }
      },
    })
    .finish(() => respond(204))
  const without = pipeline<null>({ name: 'without', ...settings })
    .foreign('mailed', {
      guarantee: 'at_most_once',
      call: () => Promise.reject(new Error('line broke')),
      whenUnknown: () => ({}),
    })
    .finish(() => respond(204))
  const patient = pipeline<null>({ name: 'patient', version: 1 })
    .local('asked', () => retryLater(new Error('come back'), { afterMs: 60_000 }))
    .finish(() => respond(204))
  const pipelines = [late, without, patient]
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines })
  await engine.execute(late, { scope: 's', key: 'late', input: null })
  await engine.execute(without, { scope: 's', key: 'without', input: null })
  await engine.execute(patient, { scope: 's', key: 'patient', input: null })
  letGo.open()
  await engine.close()
})
afterAll(() => database.drop())

test('show reports that the result of a stuck key has arrived, and prints it only if asked to', async () => {
  const { out } = await pawlOn(database, 'show', 's', 'late')
  expect(out).toMatch(
    /^Call in doubt +faxed: returned after the key became stuck; unstick it to settle that result$/m,
  )
  expect(out).toMatch(/^Its result +‹redacted, 17 bytes; --reveal›$/m)
  expect((await pawlOn(database, 'show', '--reveal', 's', 'late')).out).toContain('{"id":"fax-4242"}')
  const json = await pawlOn(database, 'show', '--json', 's', 'late')
  expect(json.out).not.toContain('fax-4242')
  expect(JSON.parse(json.out)).toMatchObject({
    key: { call: { known: 'returned', late: true, result: { redacted: true, bytes: 17 } } },
  })
})

test('unstick lets such a key run on without a verdict', async () => {
  const { exit, out } = await pawlOn(database, 'unstick', '--reason', 'it answered', 's', 'late')
  expect({ exit, out }).toMatchObject({ exit: 0, out: expect.stringContaining('Unstuck.') as string })
})

test('the timeline of a key that continued without knowing the outcome of its call says so', async () => {
  const { out } = await pawlOn(database, 'show', 's', 'without')
  expect(out).toMatch(/ mailed +1 +outcome of its call is unknown$/m)
})

test('status finds keys that have been retried for a long time', async () => {
  const before = await pawlOn(database, 'status')
  expect(before.out).not.toContain('again and again')
  await database.rows(
    `UPDATE pawl.idempotency_keys SET created_at = clock_timestamp() - interval '3 hours' WHERE key = 'patient'`,
  )
  const { exit, out } = await pawlOn(database, 'status')
  expect(exit).toBe(3)
  expect(out).toMatch(
    new RegExp(
      `^! A key has been tried again and again for 3h.*\\. Can this succeed\\? See pawl show --schema ${database.schema} s patient\\.$`,
      'm',
    ),
  )
  expect(JSON.parse((await pawlOn(database, 'status', '--json')).out)).toMatchObject({
    retriedForLong: { scope: 's', key: 'patient', count: 1 },
  })
})
