import { respond } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createEngine, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const failing = pipeline<null>({ name: 'failing', version: 1, maxAttempts: 1 })
  .local('failed', () => {
    throw new Error('no seat for Ann, ann@example.com')
  })
  .finish(() => respond(204))

test.each([
  [
    'takes more out of what is recorded and announced',
    (text: string) => text.replace('Ann', '[name]'),
    'no seat for [name], [e-mail]',
  ],
  [
    'keeps nothing of a text where it throws, and the key is given back all the same',
    () => {
      throw new Error('a bug in it')
    },
    'could not redact',
  ],
])('redact %s', async (_, redact, recorded) => {
  const stuck = hear('pawl:stuck')
  const engine = createEngine({
    pool: database.pool(),
    schema: database.schema,
    pipelines: [failing],
    redact,
  })
  const request = { scope: 's', key: 'k', input: null }
  expect(await engine.execute(failing, request)).toMatchObject({
    type: expect.stringMatching(/retry_later|stuck/) as string,
  })
  await engine.execute(failing, request)
  const [row] = await database.rows<{ last_error: string; lease_until: Date | null }>(
    'SELECT last_error, lease_until FROM pawl.idempotency_keys',
  )
  expect(row?.last_error).toContain(recorded)
  expect(row?.last_error).not.toMatch(/Ann|ann@/)
  expect(row?.lease_until).toBeNull()
  for (const { lastError } of stuck) expect(lastError).toBe(row?.last_error)
  await engine.close()
})
