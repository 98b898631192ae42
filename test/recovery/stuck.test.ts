import { randomUUID } from 'node:crypto'
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

const request = () => ({ scope: 'rider', key: randomUUID(), input: null })

test('an error that exhausts the attempts is announced, recorded and returned, and the key is announced as stuck once', async () => {
  const failing = pipeline({ name: 'failing', version: 1, maxAttempts: 1 })
    .local('never', () => {
      throw new Error('no such table')
    })
    .finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [failing], schema: database.schema })
  const failures = hear('pawl:phase_failed')
  const stuck = hear('pawl:stuck')
  const asked = request()
  const expected = { type: 'stuck', reason: 'attempts_exhausted', lastError: 'Error: no such table' }
  expect(await engine.execute(failing, asked)).toMatchObject(expected)
  expect(await engine.execute(failing, asked)).toMatchObject(expected)
  expect(failures).toMatchObject([
    { phase: 'never', error: new Error('no such table'), reason: 'unknown_error' },
  ])
  expect(stuck).toMatchObject([{ reason: 'attempts_exhausted', lastError: 'Error: no such table' }])
  await engine.close()
})

test('a key that is stuck at a call that must not be repeated says why', async () => {
  const calling = pipeline({ name: 'calling', version: 1 })
    .foreign('called', {
      guarantee: 'at_most_once',
      call: async () => {
        throw new Error('cut off')
      },
    })
    .finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [calling], schema: database.schema })
  const failures = hear('pawl:phase_failed')
  const outcome = await engine.execute(calling, request())
  expect(outcome).toMatchObject({ type: 'stuck', reason: 'unknown_outcome', lastError: 'Error: cut off' })
  expect(failures).toMatchObject([{ phase: 'called', error: new Error('cut off') }])
  await engine.close()
})

test('a call may return nothing', async () => {
  const sending = pipeline({ name: 'sending', version: 1 })
    .foreign('sent', { call: async () => {} })
    .finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [sending], schema: database.schema })
  expect(await engine.execute(sending, request())).toMatchObject({ type: 'completed' })
  await engine.close()
})

test('a request with a member that execute does not know is refused, before anything is reserved', async () => {
  const empty = pipeline({ name: 'empty', version: 1 }).finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [empty], schema: database.schema })
  const mistyped = { ...request(), fingerPrint: 'x' }
  await expect(engine.execute(empty, mistyped)).rejects.toMatchObject({
    code: 'PAWL_INVALID_REQUEST',
    message: "execute: unknown option 'fingerPrint'. The options are scope, key, input, fingerprint, bindTo.",
  })
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toEqual([])
  await engine.close()
})
