import { EventEmitter, once } from 'node:events'
import { createOperator, respond } from '@pawl/core'
import { afterAll, expect, test } from 'vitest'
import { seedKey } from '../support/seeded-rows.js'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
afterAll(() => database.drop())
const operator = createOperator({ pool: database.pool(), schema: database.schema })

/** Its first phase calls, and its first attempt is its last. */
const chargeOnce = pipeline<null>({ name: 'charge-once', version: 1, maxAttempts: 1 })
  .foreign('charged', {
    call: async (): Promise<{ id: string }> => {
      throw new Error('socket hang up')
    },
    settle: ({ result }) => ({ charge: result.id }),
    reference: (result) => result.id,
  })
  .finish(() => respond(201))

const engineOf = () =>
  createEngine({ pool: database.pool(), schema: database.schema, pipelines: [chargeOnce] })

test('of a key that became stuck at its first attempt, nobody says that its call was not made', async () => {
  const engine = engineOf()
  await engine.recordPipelines()
  const name = { scope: 'next', key: 'stuck at once' }
  expect(await engine.execute(chargeOnce, { ...name, input: null })).toMatchObject({ type: 'stuck' })
  await engine.close()
  const move = await operator.next(name)
  expect(move).toMatchObject({ type: 'needs_a_person', isStuck: true })
  expect(move?.type === 'needs_a_person' ? move.then : null).toMatchObject({ type: 'calls', again: true })
})

test('of a key that was enqueued and that nobody has run, it is said that its call was not made', async () => {
  const engine = engineOf()
  await engine.recordPipelines()
  const name = { scope: 'next', key: 'enqueued' }
  await engine.enqueue(chargeOnce, { ...name, input: null })
  await engine.close()
  expect(await operator.next(name)).toMatchObject({
    type: 'calls',
    again: false,
    because: 'The call has not been made.',
  })
})

test('of a key that was given back in the middle of its first attempt, nobody says so either', async () => {
  const calls = new EventEmitter()
  const called = once(calls, 'made')
  const cutOff = pipeline<null>({ name: 'cut-off', version: 1 })
    .foreign('charged', {
      call: ({ signal }): Promise<{ id: string }> => {
        calls.emit('made')
        return new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true }),
        )
      },
      settle: ({ result }) => ({ charge: result.id }),
      reference: (result) => result.id,
    })
    .finish(() => respond(201))
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [cutOff] })
  await engine.recordPipelines()
  const name = { scope: 'next', key: 'given back' }
  const running = engine.execute(cutOff, { ...name, input: null })
  await called
  await engine.close({ timeoutMs: 0 })
  await running.catch(() => {})
  const move = await operator.next(name)
  expect(move?.type === 'waits' ? move.then : move).toMatchObject({ type: 'calls', again: true })
})

test('a recorded definition without phases is one that cannot be read', async () => {
  const id = await seedKey(database, { pipeline: 'empty', definitionHash: 'e' })
  await database.rows(
    `INSERT INTO pawl.pipelines (pipeline, version, definition_hash, kind, description, recorded_at)
     VALUES ('empty', 1, 'e', 'pipeline', '{"phases":[],"maxAttempts":1,"maxAgeMs":1,"retentionMs":1,"commits":"each"}', now())`,
  )
  expect(await operator.next({ keyId: id })).toMatchObject({ type: 'unknown' })
})
