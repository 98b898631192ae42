import { randomUUID } from 'node:crypto'
import { type PipelineSettings, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { sql, type Transaction } from 'kysely'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { expectWholePool, gate, hear, waitingForLock } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.createNew()
  await createRideTables(database)
  await database.rows(`INSERT INTO rides (rider, amount) VALUES ('one', 0), ('two', 0)`)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

type Tx = Transaction<Database>
type Body = (tx: Tx, attempt: number) => Promise<unknown>

const REQUEST = { scope: 's', key: randomUUID(), input: { amount: 9 } }

/** A pipeline whose local phase, or whose settle, is the given body. */
function pipelineWith(where: 'local' | 'settle', body: Body, settings: PipelineSettings = {}) {
  let attempts = 0
  const phase = async ({ tx }: { readonly tx: Tx }) => {
    await tx.insertInto('audit').values({ what: 'written' }).execute()
    await body(tx, ++attempts)
  }
  const builder = pipeline<{ amount: number }>({ name: 'conflicting', version: 1, ...settings })
  const target =
    where === 'local'
      ? builder.local('written', phase).finish(() => respond(201))
      : builder
          .foreign('written', {
            call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
            settle: phase,
          })
          .finish(() => respond(201))
  return { target, attempts: () => attempts }
}

async function run(target: ReturnType<typeof pipelineWith>['target'], transactions = {}) {
  const application = `conflicts_${database.schema}`
  const pool = database.pool({ application_name: application, ...transactions })
  const engine = createEngine({ pool, pipelines: [target], schema: database.schema })
  const outcome = await engine.execute(target, REQUEST)
  await expectWholePool(pool, database, application)
  await engine.close()
  return outcome
}

async function expectWrittenOnce(where: 'local' | 'settle'): Promise<void> {
  expect(await database.rows('SELECT what FROM audit')).toEqual([{ what: 'written' }])
  expect(await provider.requests()).toHaveLength(where === 'settle' ? 1 : 0)
  expect(await database.rows('SELECT phase FROM pawl.effects')).toHaveLength(where === 'settle' ? 1 : 0)
}

const lock = (rider: string) => `UPDATE rides SET amount = 1 WHERE rider = '${rider}'`

/** Reads a row, lets another session change it, and changes it too: 40001 under REPEATABLE READ. */
async function collide(tx: Tx): Promise<void> {
  await tx.selectFrom('rides').selectAll().execute()
  await database.rows(`UPDATE rides SET amount = amount + 1 WHERE rider = 'one'`)
  await tx.updateTable('rides').set({ amount: 100 }).where('rider', '=', 'one').execute()
}

describe.each(['local', 'settle'] as const)('in %s', (where) => {
  test('a serialization failure retries nothing but the transaction', async () => {
    const retried = hear('pawl:phase_retried')
    const { target, attempts } = pipelineWith(
      where,
      async (tx, attempt) => (attempt === 1 ? collide(tx) : undefined),
      { isolation: 'repeatable read' },
    )
    expect(await run(target)).toMatchObject({ type: 'completed' })
    expect(attempts()).toBe(2)
    expect(retried).toMatchObject([{ phase: 'written', attempt: 1, error: { code: '40001' } }])
    await expectWrittenOnce(where)
  })

  test('a deadlock retries nothing but the transaction', async () => {
    const retried = hear('pawl:phase_retried')
    const other = await database.admin.connect()
    let unlocked: Promise<unknown> = Promise.resolve()
    const { target } = pipelineWith(where, async (tx, attempt) => {
      if (attempt === 1) {
        // PostgreSQL ends the session that looks for a deadlock first.
        await sql`SET LOCAL deadlock_timeout = '10ms'`.execute(tx)
        await other.query(`BEGIN; ${lock('two')}`)
      } else await unlocked
      await sql.raw(lock('one')).execute(tx)
      if (attempt === 1) {
        unlocked = other.query(lock('one')).then(() => other.query('COMMIT'))
        await waitingForLock(database, `${database.businessSchema}_admin`)
      }
      await sql.raw(lock('two')).execute(tx)
    })
    expect(await run(target)).toMatchObject({ type: 'completed' })
    await unlocked
    other.release()
    expect(retried).toMatchObject([{ phase: 'written', error: { code: '40P01' } }])
    await expectWrittenOnce(where)
  })

  test('a serialization failure at COMMIT itself is retried', async () => {
    const retried = hear('pawl:phase_retried')
    const { target } = pipelineWith(
      where,
      async (tx) => {
        await tx.selectFrom('rides').selectAll().where('rider', '=', 'one').execute()
        await tx.updateTable('rides').set({ amount: 5 }).where('rider', '=', 'two').execute()
      },
      { isolation: 'serializable' },
    )
    let commits = 0
    const pool = database.pool()
    // Write skew: it reads what the phase has written, and writes what the phase has read.
    const skew = async () => {
      await database.rows(`BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT * FROM rides WHERE rider = 'two';
        UPDATE rides SET amount = 6 WHERE rider = 'one'; COMMIT`)
    }
    const engine = createProbedEngine<Database>(
      { pool, pipelines: [target], schema: database.schema },
      ({ phase, step, when }) => {
        if (phase !== 'written' || step !== 'commit' || when !== 'before' || ++commits > 1) return
        return skew()
      },
    )
    expect(await engine.execute(target, REQUEST)).toMatchObject({ type: 'completed' })
    expect(commits).toBe(2)
    expect(retried).toMatchObject([{ phase: 'written', error: { code: '40001' } }])
    await expectWrittenOnce(where)
    await engine.close()
  })

  test('a conflict that does not go away is retried as often as transactionRetries says, and no result is lost', async () => {
    const retried = hear('pawl:phase_retried')
    const { target, attempts } = pipelineWith(
      where,
      async (tx, attempt) => (attempt <= 3 ? collide(tx) : undefined),
      {
        isolation: 'repeatable read',
        transactionRetries: 2,
      },
    )
    expect(await run(target)).toMatchObject({
      type: 'retry_later',
      reason: 'transient_error',
      recoveryPoint: 'started',
      error: { code: '40001' },
    })
    expect(attempts()).toBe(3)
    expect(retried).toHaveLength(2)
    expect(await run(target)).toMatchObject({ type: 'completed' })
    await expectWrittenOnce(where)
  })

  test.each([
    { how: 'swallowed', rethrow: () => undefined },
    {
      how: 'wrapped',
      rethrow: (error: unknown): never => {
        throw new Error('could not write', { cause: error })
      },
    },
    {
      how: 'replaced by another',
      rethrow: (): never => {
        throw new Error('could not write')
      },
    },
  ])('a conflict that user code has $how is retried all the same', async ({ rethrow }) => {
    const { target, attempts } = pipelineWith(
      where,
      async (tx, attempt) => (attempt === 1 ? collide(tx).catch(rethrow) : undefined),
      { isolation: 'repeatable read' },
    )
    expect(await run(target)).toMatchObject({ type: 'completed' })
    expect(attempts()).toBe(2)
    await expectWrittenOnce(where)
  })
})

test('a transaction that does not get a lock in time (55P03) is retried, and gets it once it is free', async () => {
  const other = await database.admin.connect()
  await other.query(`BEGIN; UPDATE rides SET amount = 1 WHERE rider = 'one'`)
  const { target, attempts } = pipelineWith(
    'local',
    async (tx, attempt) => {
      if (attempt === 2) await other.query('COMMIT')
      await tx.updateTable('rides').set({ amount: 2 }).where('rider', '=', 'one').execute()
    },
    { lockTimeoutMs: 50 },
  )
  expect(await run(target)).toMatchObject({ type: 'completed' })
  expect(attempts()).toBe(2)
  other.release()
})

test('a conflict that a savepoint has undone is over, and a later error is judged on its own', async () => {
  const other = await database.admin.connect()
  await other.query(`BEGIN; UPDATE rides SET amount = 1 WHERE rider = 'one'`)
  const { target, attempts } = pipelineWith('local', async (tx) => {
    await sql`SAVEPOINT before_lock`.execute(tx)
    await sql`SELECT 1 FROM rides WHERE rider = 'one' FOR UPDATE NOWAIT`.execute(tx).catch(async () => {
      await sql`ROLLBACK TO SAVEPOINT before_lock`.execute(tx)
    })
    throw new Error('no driver is free')
  })
  expect(await run(target)).toMatchObject({
    type: 'retry_later',
    reason: 'unknown_error',
    error: { message: 'no driver is free' },
  })
  expect(attempts()).toBe(1)
  await other.query('ROLLBACK')
  other.release()
})

test('a statement that takes too long (57014) is not retried at once: the outcome is retry_later, and a later attempt goes on', async () => {
  const { target, attempts } = pipelineWith(
    'settle',
    async (tx, attempt) => (attempt === 1 ? sql`SELECT pg_sleep(60)`.execute(tx) : undefined),
    { statementTimeoutMs: 500 },
  )
  expect(await run(target)).toMatchObject({
    type: 'retry_later',
    reason: 'transient_error',
    error: { code: '57014' },
  })
  expect(attempts()).toBe(1)
  expect(await run(target)).toMatchObject({ type: 'completed' })
  await expectWrittenOnce('settle')
})

test('phases of unrelated keys do not abort each other under SERIALIZABLE, on a small and analysed table', async () => {
  const groups = 10
  const groupSize = 4
  const target = pipeline<number>({ name: 'serial', version: 1, isolation: 'serializable' })
    .local('written', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'serial' }).execute()
    })
    .finish(() => respond(204))
  let together = gate()
  let advancing = 0
  const engine = createProbedEngine<Database>(
    { pool: database.pool(), pipelines: [target], schema: database.schema },
    ({ step, when }) => {
      if (when !== 'before' || step !== 'advance_key') return
      // All of a group are in their transactions, with their snapshots taken, before the first goes on.
      if (++advancing === groupSize) together.open()
      return together.opened
    },
  )
  const retried = hear('pawl:phase_retried')
  await database.rows(`INSERT INTO pawl.idempotency_keys
      (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
    SELECT 'other', n::text, 'other', 1, repeat('0', 16), sha256('x'), 1, '0', gen_random_uuid()
      FROM generate_series(1, 20) AS n`)
  await database.rows('ANALYZE pawl.idempotency_keys')
  for (let group = 0; group < groups; group++) {
    together = gate()
    advancing = 0
    const keys = Array.from({ length: groupSize }, (_, n) => `${group}-${n}`)
    const outcomes = await Promise.all(
      keys.map((key) => engine.execute(target, { scope: 's', key, input: group })),
    )
    expect(new Set(outcomes.map((outcome) => outcome.type))).toEqual(new Set(['completed']))
  }
  // Finishing moves the row out of an index, where neighbours may still collide; an advance (HOT) touches no index.
  expect(retried.filter((message) => message.phase === 'written')).toEqual([])
  await engine.close()
})
