import { randomUUID } from 'node:crypto'
import { type PipelineSettings, respond, type Stage } from '@pawl/core'
import { sql, type Transaction } from 'kysely'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { expectWholePool, gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

type Tx = Transaction<Database>
interface Context {
  readonly tx: Tx
  readonly stage: Stage
}
type Body = (context: Context, attempt: number) => unknown

const REQUEST = { scope: 's', key: randomUUID(), input: 9 }

/** Runs a body as a local phase, or as settle, and checks the pool afterwards. */
function harness(body: Body, settings: PipelineSettings = {}, where: 'local' | 'settle' = 'local') {
  let attempts = 0
  const run = async (context: Context) => {
    await body(context, ++attempts)
  }
  const builder = pipeline<number>({ name: 'abusing', version: 1, ...settings })
  const target =
    where === 'local'
      ? builder.local('written', run).finish(() => respond(201))
      : builder
          .foreign('written', {
            call: ({ input, idempotencyKey }) => provider.charge(input, { idempotencyKey }),
            settle: run,
          })
          .finish(() => respond(201))
  const application = `phase_${database.schema}`
  const pool = database.pool({ max: 2, application_name: application })
  const engine = createEngine({ pool, pipelines: [target], schema: database.schema })
  const execute = async () => {
    const outcome = await engine.execute(target, REQUEST)
    await expectWholePool(pool, database, application)
    return outcome
  }
  return { execute, engine, attempts: () => attempts }
}

const insert = (tx: Tx, what: string) => tx.insertInto('audit').values({ what }).execute()
const audit = () => database.rows<{ what: string }>('SELECT what FROM audit ORDER BY what')
const refuse = (error: unknown): never => {
  throw error
}

async function backendOf(tx: Tx): Promise<number> {
  const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(tx)
  return rows[0]?.pid ?? refuse(new Error('no pid'))
}

async function backendGone(pid: number): Promise<void> {
  const left = `SELECT count(*)::int AS left FROM pg_stat_activity, pg_sleep(0.005) WHERE pid = $1`
  while ((await database.rows<{ left: number }>(left, [pid]))[0]?.left !== 0);
}

describe.each(['local', 'settle'] as const)('in %s', (where) => {
  test.each(['goes on', 'returns'] as const)(
    'a transaction whose backend is terminated under a body that then %s is retried, and the call is not repeated',
    async (then) => {
      const retried = hear('pawl:phase_retried')
      const body: Body = async ({ tx }, attempt) => {
        await insert(tx, 'written')
        if (attempt > 1) return
        const pid = await backendOf(tx)
        await database.rows('SELECT pg_terminate_backend($1, 5000)', [pid])
        if (then === 'goes on') await insert(tx, 'after')
      }
      const { execute, attempts, engine } = harness(body, {}, where)
      expect(await execute()).toMatchObject({ type: 'completed' })
      expect(attempts()).toBe(2)
      expect(retried).toMatchObject([{ phase: 'written', error: { code: 'PAWL_CONNECTION_LOST' } }])
      expect(await audit()).toEqual([{ what: 'written' }])
      expect(await provider.requests()).toHaveLength(where === 'settle' ? 1 : 0)
      await engine.close()
    },
  )

  test('a transaction that is killed for being idle (25P03) is retried, and the call is not repeated', async () => {
    const { execute, attempts, engine } = harness(
      async ({ tx }, attempt) => {
        await insert(tx, 'written')
        if (attempt === 1) await backendGone(await backendOf(tx))
      },
      { idleTimeoutMs: 700 },
      where,
    )
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(attempts()).toBe(2)
    expect(await audit()).toEqual([{ what: 'written' }])
    expect(await provider.requests()).toHaveLength(where === 'settle' ? 1 : 0)
    await engine.close()
  })

  // Shows I4.
  test('a swallowed error that doomed the transaction is noticed, nothing commits, and the error is named', async () => {
    const { execute, engine } = harness(
      async ({ tx }) => {
        await insert(tx, 'written')
        await sql`SELECT 1 / 0`.execute(tx).catch(() => {})
      },
      {},
      where,
    )
    expect(await execute()).toMatchObject({
      type: 'retry_later',
      reason: 'unknown_error',
      recoveryPoint: 'started',
      error: { code: 'PAWL_TRANSACTION_ABORTED', cause: { code: '22012' } },
    })
    expect(await audit()).toEqual([])
    expect(await engine.inspect('s', REQUEST.key)).toMatchObject({ recoveryPoint: 'started', lease: null })
    await engine.close()
  })

  test.each([
    { command: 'COMMIT', swallow: false },
    { command: ' commit', swallow: true },
    { command: 'END', swallow: true },
    { command: 'ABORT', swallow: true },
    { command: 'BEGIN', swallow: true },
    { command: 'START TRANSACTION', swallow: true },
    { command: "PREPARE TRANSACTION 'x'", swallow: true },
    { command: 'COMMIT AND CHAIN', swallow: true },
    { command: 'COMMIT; BEGIN', swallow: true },
    { command: 'ROLLBACK', swallow: true },
    { command: 'ROLLBACK AND CHAIN', swallow: true },
    { command: 'ROLLBACK; BEGIN', swallow: true },
  ])('a body that sends $command itself (error swallowed: $swallow) advances nothing', async (how) => {
    const body: Body = async ({ tx }) => {
      await insert(tx, 'written')
      await sql
        .raw(how.command)
        .execute(tx)
        .catch(how.swallow ? () => {} : refuse)
    }
    const { execute, engine } = harness(body, {}, where)
    expect(await execute()).toMatchObject({
      type: 'retry_later',
      reason: 'unknown_error',
      recoveryPoint: 'started',
      error: { code: 'PAWL_TRANSACTION_ENDED' },
    })
    // It was refused before it was sent, so no harm is done.
    expect(await audit()).toEqual([])
    expect(await engine.inspect('s', REQUEST.key)).toMatchObject({ recoveryPoint: 'started', trail: [] })
    await engine.close()
  })

  test.each([
    { command: '/* hidden */ COMMIT', swallow: false, left: [{ what: 'written' }] },
    { command: '/* hidden */ COMMIT', swallow: true, left: [{ what: 'written' }] },
    { command: '/* hidden */ COMMIT AND CHAIN', swallow: true, left: [{ what: 'written' }] },
    { command: 'SELECT 1; COMMIT; BEGIN', swallow: true, left: [{ what: 'written' }] },
    { command: 'SELECT 1; COMMIT AND CHAIN; SELECT 1 / 0', swallow: true, left: [{ what: 'written' }] },
    { command: 'SELECT 1; COMMIT; SELECT 1 / 0', swallow: true, left: [{ what: 'written' }] },
    { command: '/* hidden */ ROLLBACK', swallow: true, left: [] },
    { command: '/* hidden */ ROLLBACK AND CHAIN', swallow: true, left: [] },
  ])(
    'a body that hides $command from us (error swallowed: $swallow) runs once, and is stuck',
    async (how) => {
      const body: Body = async ({ tx }) => {
        await insert(tx, 'written')
        await sql
          .raw(how.command)
          .execute(tx)
          .catch(how.swallow ? () => {} : refuse)
      }
      const { execute, attempts, engine } = harness(body, {}, where)
      const stuck = {
        type: 'stuck',
        reason: 'transaction_ended',
        recoveryPoint: 'started',
        lastError: expect.stringContaining("Phase 'written' ended its own transaction."),
      }
      expect(await execute()).toMatchObject(stuck)
      // What was committed is beyond our reach, and running the body again would commit it again.
      expect(await execute()).toMatchObject(stuck)
      expect(attempts()).toBe(1)
      expect(await audit()).toEqual(how.left)
      expect(await provider.requests()).toHaveLength(where === 'settle' ? 1 : 0)
      await engine.close()
    },
  )

  test('a server that became read-only (25006) leads to retry_later, and a later attempt goes on', async () => {
    const { execute, attempts, engine } = harness(
      async ({ tx }, attempt) => {
        if (attempt === 1) await sql`SET TRANSACTION READ ONLY`.execute(tx)
        await insert(tx, 'written')
      },
      {},
      where,
    )
    expect(await execute()).toMatchObject({ reason: 'transient_error', error: { code: '25006' } })
    expect(attempts()).toBe(1)
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(where === 'settle' ? 1 : 0)
    await engine.close()
  })
})

test('a read-only server takes no reservation: the outcome is unavailable, and no user code runs', async () => {
  let ran = 0
  const target = pipeline<number>({ name: 'counting', version: 1 }).finish(() => {
    ran++
    return respond(204)
  })
  const options = `-c search_path=${database.businessSchema} -c default_transaction_read_only=on`
  const pool = database.pool({ options })
  const engine = createEngine({ pool, pipelines: [target], schema: database.schema })
  expect(await engine.execute(target, REQUEST)).toMatchObject({
    type: 'unavailable',
    error: { code: '25006' },
  })
  expect(ran).toBe(0)
  await engine.close()
})

test('tx and stage refuse to work once their phase has returned', async () => {
  const kept: Context[] = []
  const { execute, engine } = harness((context) => {
    kept.push(context)
  })
  expect(await execute()).toMatchObject({ type: 'completed' })
  const { tx, stage } = kept[0] ?? refuse(new Error('the phase did not run'))
  await expect(insert(tx, 'late')).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
  await expect(stage('late', {})).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
  expect(await audit()).toEqual([])
  expect(await database.rows('SELECT * FROM pawl.staged_jobs')).toEqual([])
  await engine.close()
})

test('what a failed phase left running writes nothing, neither on its own nor into the next transaction', async () => {
  const failed = gate()
  let late: Promise<unknown>[] = []
  const { execute, engine } = harness(async ({ tx, stage }, attempt) => {
    if (attempt > 1) return
    late = [
      failed.opened.then(async () => insert(tx, 'late')),
      failed.opened.then(async () => stage('late', {})),
    ]
    throw new Error('one of several')
  })
  expect(await execute()).toMatchObject({ reason: 'unknown_error' })
  failed.open()
  for (const { status, ...rest } of await Promise.allSettled(late)) {
    expect([status, rest]).toMatchObject(['rejected', { reason: { code: 'PAWL_TRANSACTION_CLOSED' } }])
  }
  expect(await execute()).toMatchObject({ type: 'completed' })
  expect(await audit()).toEqual([])
  expect(await database.rows('SELECT * FROM pawl.staged_jobs')).toEqual([])
  await engine.close()
})

test('a phase that was retried cannot write through the tx of its first attempt', async () => {
  let first: Tx | null = null
  const { execute, engine } = harness(async ({ tx }, attempt) => {
    if (attempt === 1) {
      first = tx
      await database.rows('SELECT pg_terminate_backend($1, 5000)', [await backendOf(tx)])
      await insert(tx, 'first')
    }
    await insert(tx, 'second')
    await expect(insert(first ?? tx, 'ghost')).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
  })
  expect(await execute()).toMatchObject({ type: 'completed' })
  expect(await audit()).toEqual([{ what: 'second' }])
  await engine.close()
})

test('a constraint that fails only at COMMIT is an error of the phase, not of the connection', async () => {
  await database.rows(`ALTER TABLE audit ADD CONSTRAINT once UNIQUE (what) DEFERRABLE INITIALLY DEFERRED`)
  const { execute, engine, attempts } = harness(async ({ tx }) => {
    await insert(tx, 'twice')
    await insert(tx, 'twice')
  })
  expect(await execute()).toMatchObject({ reason: 'unknown_error', error: { code: '23505' } })
  expect(attempts()).toBe(1)
  expect(await audit()).toEqual([])
  await engine.close()
})
