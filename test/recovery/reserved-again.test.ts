import { randomUUID } from 'node:crypto'
import { createBackground, createOperator, type Pipeline, respond } from '@pawl/core'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { findKey } from '../../packages/core/src/storage/keys/find-key.js'
import { SessionPool } from '../../packages/core/src/driver/session-pool.js'
import { revokeLease } from '../../packages/core/src/storage/keys/revoke-lease.js'
import { tablesIn } from '../../packages/core/src/storage/tables.js'
import { engineThatFreezesAt } from '../support/crash.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { Spread } from '../../packages/core/src/driver/spread.js'

// A key is deleted and reserved again by another request, whose fence and revision start again. Whoever has read the first
// row must not act on the second.

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
beforeEach(() => database.rows('TRUNCATE audit; DELETE FROM pawl.idempotency_keys'))

interface Who {
  readonly who: string
}

const payOut = pipeline<Who>({ name: 'pay-out', version: 1 })
  .local('paid', async ({ tx, input }) => {
    await tx
      .insertInto('audit')
      .values({ what: `paid ${input.who}` })
      .execute()
  })
  .finish(({ input }) => respond(200, { paidTo: input.who }))

const look = pipeline<Who>({ name: 'look', version: 7 }).finish(({ input }) =>
  respond(200, { seen: input.who }),
)

const NAME = { scope: 's', key: 'k' }
const pipelines: Pipeline<Database, Who>[] = [payOut, look]
const options = () => ({ pool: database.pool(), pipelines, schema: database.schema })

/** Ann's request has ended and its key is gone. Bob's has another pipeline, the same name, and nobody runs it yet. */
async function replaceByBobs(engine: ReturnType<typeof createEngine>): Promise<void> {
  await database.rows('DELETE FROM pawl.idempotency_keys')
  expect(await engine.enqueue(look, { ...NAME, input: { who: 'bob' } })).toMatchObject({ fresh: true })
}

const paid = () => database.rows('SELECT what FROM audit')

test('an execution that read a key before it was reserved again does not run the other request', async () => {
  const engine = createEngine(options())
  await engine.enqueue(payOut, { ...NAME, input: { who: 'ann' } })
  const frozen = engineThatFreezesAt(options(), 'reserve/find_key#1:after')
  const first = frozen.engine.execute(payOut, { ...NAME, input: { who: 'ann' } })
  await frozen.frozen
  await replaceByBobs(engine)
  frozen.wake()
  expect(await first).toMatchObject({ type: 'mismatch' })
  expect(await paid()).toEqual([])
  const bobs = await engine.execute(look, { ...NAME, input: { who: 'bob' } })
  expect(bobs.type === 'completed' && bobs.response.body.toString()).toBe('{"seen":"bob"}')
  await engine.close()
})

test('nor does a completer that found it before', async () => {
  const engine = createEngine(options())
  await engine.enqueue(payOut, { ...NAME, input: { who: 'ann' } })
  const frozen = engineThatFreezesAt(options(), 'reserve/find_key#1:after')
  const { completer } = createBackground({ engine: frozen.engine, reaper: false })
  const round = completer?.runOnce()
  await frozen.frozen
  await replaceByBobs(engine)
  frozen.wake()
  expect(await round).toMatchObject({ found: 1, completed: 0 })
  expect(await paid()).toEqual([])
  expect(await engine.inspect(NAME.scope, NAME.key)).toMatchObject({ pipeline: 'look', version: 7, fence: 1 })
  await engine.close()
})

test('nor does a person who looked at it before take its lease away', async () => {
  const engine = createEngine(options())
  await engine.enqueue(payOut, { ...NAME, input: { who: 'ann' } })
  const tables = tablesIn(database.schema, 'a test')
  const sessions = new SessionPool(database.pool({ max: 1 }), {
    acquireTimeoutMs: 5_000,
    statementDeadlineMs: 5_000,
    lockTimeoutMs: 1_000,
    pipelining: true,
    spread: new Spread(),
    learn: () => Promise.resolve(),
    preparedStatements: false,
    probe: null,
  })
  await sessions.with('operator', async (session) => {
    const store = { session, tables }
    const read = await findKey(store, NAME.scope, NAME.key)
    if (read === null) throw new Error('there is no key')
    await replaceByBobs(engine)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour'`,
    )
    const note = { actor: 'anna', reason: 'a test', detailJson: '{}' }
    const steering = { read, holder: randomUUID(), note }
    expect(await revokeLease(store, steering)).toBeNull()
  })
  const operator = createOperator({ pool: database.pool(), schema: database.schema })
  expect(await operator.show(NAME)).toMatchObject({ key: { fence: 1 }, interventions: [] })
  await engine.close()
})
