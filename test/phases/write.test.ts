import { randomUUID } from 'node:crypto'
import {
  type Given,
  type PawlError,
  pawl,
  type PipelineSettings,
  respond,
  type TransactionContext,
} from '@pawl/core'
import { sql } from 'kysely'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { randomLetters } from '../support/random-letters.js'
import { createRideTables, type Database } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { FEWEST, LegTrial } from './leg-trial.js'

const trial = await LegTrial.open()
const { database } = trial
afterAll(() => database.drop())
beforeEach(() => trial.clear())

const { createEngine, pipeline, query } = pawl<Database>()

type Context = TransactionContext<Database, null, object>

const note = ({ tx }: Pick<Context, 'tx'>, what: string) => tx.insertInto('audit').values({ what })

/** A phase with this body, and another that says how many rows it sees. */
const twoPhases = (body: (context: Context) => void | Promise<void>, settings: PipelineSettings = {}) =>
  pipeline<null>({ name: 'writes', version: 1, ...settings })
    .local('a', (context) => body(context))
    .finish(async ({ tx }) => {
      const rows = await tx.selectFrom('audit').select('what').orderBy('what').execute()
      return respond(200, { seen: rows.map(({ what }) => what) })
    })

const EACH = { commits: 'each' } as const
const WAYS = [
  ['each', {}],
  ['fewest', FEWEST],
] as const satisfies readonly (readonly [string, PipelineSettings])[]

describe.each(WAYS)('with commits: %s, what a phase hands to write', (_, settings) => {
  test('is committed with its recovery point, in the transaction that moves it', async () => {
    const { execute, view } = trial.start(
      twoPhases((context) => {
        context.write(note(context, 'one'))
        context.write(note(context, 'two'))
      }),
      settings,
    )
    const outcome = await execute()
    expect(outcome).toMatchObject({ type: 'completed' })
    expect(await trial.noted()).toEqual(['one', 'two'])
    expect((await view())?.recoveryPoint).toBe('finished')
  })

  test('is seen by later queries of the same phase, and of the next', async () => {
    const seen: string[][] = []
    const look = async ({ tx }: Context): Promise<void> => {
      const rows = await tx.selectFrom('audit').select('what').where('what', '<>', 'x').execute()
      seen.push(rows.map(({ what }) => what))
    }
    const { execute } = trial.start(
      twoPhases(async (context) => {
        context.write(note(context, 'one'))
        await look(context)
        context.write(note(context, 'two'))
      }),
      settings,
    )
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(seen).toEqual([['one']])
  })

  test('is undone with the phase, and is not there if the phase throws', async () => {
    const { execute, view } = trial.start(
      twoPhases((context) => {
        context.write(note(context, 'one'))
        throw new Error('broken')
      }),
      settings,
    )
    expect((await execute()).type).toBe('retry_later')
    expect(await trial.noted()).toEqual([])
    expect((await view())?.recoveryPoint).toBe('started')
  })

  test('fails its own phase when it fails, whoever else sends it', async () => {
    const { execute, view } = trial.start(
      twoPhases((context) => context.write(note(context, null as never))),
      settings,
    )
    const failed = hear('pawl:phase_failed')
    expect(await execute()).toMatchObject({ type: 'retry_later', error: { code: '23502' } })
    expect(failed.map(({ phase }) => phase)).toEqual(['a'])
    expect((await view())?.recoveryPoint).toBe('started')
  })
})

describe('the error of a write', () => {
  test('cannot be swallowed with that of the query it travels with', async () => {
    const { execute, view } = trial.start(
      twoPhases(async (context) => {
        await sql`SAVEPOINT s`.execute(context.tx)
        context.write(note(context, null as never))
        await note(context, 'two')
          .execute()
          .catch(() => {})
        await sql`ROLLBACK TO SAVEPOINT s`.execute(context.tx)
      }),
      EACH,
    )
    const outcome = await execute()
    expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_TRANSACTION_ABORTED' } })
    expect((outcome as { error: PawlError }).error.message).toContain("What 'a' handed to write")
    expect((outcome as { error: PawlError }).error.cause).toMatchObject({ code: '23502' })
    expect(await trial.noted()).toEqual([])
    expect((await view())?.recoveryPoint).toBe('started')
  })

  test('cannot be swallowed either if a value could not be sent', async () => {
    const unsendable = {
      toPostgres() {
        throw new Error('unsendable')
      },
    }
    const { execute } = trial.start(
      twoPhases(async (context) => {
        context.write(note(context, unsendable as never))
        await note(context, 'two')
          .execute()
          .catch(() => {})
      }),
      EACH,
    )
    expect(await execute()).toMatchObject({
      type: 'retry_later',
      error: { code: 'PAWL_TRANSACTION_ABORTED' },
    })
    expect(await trial.noted()).toEqual([])
  })

  test('is that of its phase, also where a right is missing', async () => {
    const role = `r_${randomLetters()}`
    await database.rows(
      `CREATE ROLE ${role}; GRANT ${role} TO CURRENT_USER; GRANT USAGE ON SCHEMA ${database.businessSchema} TO ${role}`,
    )
    const { execute } = trial.start(
      twoPhases(async (context) => {
        await sql`SET LOCAL ROLE ${sql.id(role)}`.execute(context.tx)
        context.write(note(context, 'one'))
      }),
      EACH,
    )
    const outcome = await execute()
    await database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    expect(outcome).toMatchObject({ type: 'retry_later', error: { code: '42501' } })
  })
})

test('writes that take long have as much time as queries that are awaited', async () => {
  // Each takes longer than half of what one statement may take, and together they take longer than a connection's deadline.
  const slow = { statementTimeoutMs: 500, lockTimeoutMs: 200, idleTimeoutMs: 500, leaseMs: 20_000 }
  const own = await TestDatabase.createNew()
  await createRideTables(own)
  await own.rows(`
    CREATE FUNCTION ${own.businessSchema}.dawdle() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(0.4); RETURN NEW; END $$;
    CREATE TRIGGER dawdle BEFORE INSERT ON ${own.businessSchema}.audit FOR EACH ROW EXECUTE FUNCTION ${own.businessSchema}.dawdle()`)
  const defined = pipeline<null>({ name: 'slow', version: 1, transactionRetries: 0 }).finish((context) => {
    for (let n = 0; n < 7; n++) context.write(note(context, `${n}`))
    return respond(200)
  })
  const engine = createEngine({ pool: own.pool(), pipelines: [defined], schema: own.schema, defaults: slow })
  const outcome = await engine.execute(defined, { scope: 's', key: 'k', input: null })
  expect(outcome).toMatchObject({ type: 'completed' })
  await engine.close()
  await own.drop()
})

describe('write', () => {
  test('takes values as they are when it is called', async () => {
    await database.rows(
      `CREATE TABLE ${database.businessSchema}.documents (json json, list text[], at timestamptz, bytes bytea)`,
    )
    interface WithDocuments extends Database {
      documents: { json: object; list: string[]; at: Date; bytes: Buffer }
    }
    const on = pawl<WithDocuments>()
    const documents = on.pipeline<null>({ name: 'documents', version: 1 }).finish(({ tx, write }) => {
      const [json, list, at, bytes] = [{ n: 1 }, ['a'], new Date(0), Buffer.from('a')] as const
      write(tx.insertInto('documents').values({ json, list: list as never, at, bytes }))
      Object.assign(json, { n: 2 })
      Object.assign(list, ['b'])
      at.setTime(1)
      bytes.write('b')
      return respond(200)
    })
    const { execute } = trial.start(documents as never)
    expect((await execute()).type).toBe('completed')
    expect(
      await database.rows(
        `SELECT json, list, extract(epoch FROM at)::int AS at, bytes FROM ${database.businessSchema}.documents`,
      ),
    ).toEqual([{ json: { n: 1 }, list: ['a'], at: 0, bytes: Buffer.from('a') }])
  })

  test('takes queries that are compiled once', async () => {
    const insert = query((db, given: Given<{ what: string }>) =>
      db.insertInto('audit').values({ what: given.what }),
    )
    const { execute } = trial.start(
      twoPhases((context) => context.write(insert(context.tx, { what: 'one' }))),
    )
    expect((await execute()).type).toBe('completed')
    expect(await trial.noted()).toEqual(['one'])
  })

  test.each<[string, (context: Context) => unknown]>([
    ['a query that returns rows', (context) => note(context, 'one').returning('id')],
    ['a select', ({ tx }) => tx.selectFrom('audit').selectAll()],
    ['raw SQL', () => sql`COMMIT`],
    ['the promise of an executed query', (context) => note(context, 'one').execute()],
    ['the promise of an executed query that fails', (context) => note(context, null as never).execute()],
    ['nothing', () => undefined],
  ])('refuses %s', async (_, made) => {
    const { execute } = trial.start(twoPhases((context) => context.write(made(context) as never)))
    expect(await execute()).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_INVALID_QUERY' } })
    expect(await trial.noted()).toEqual([])
  })

  test('is refused once the phase has returned', async () => {
    let late: Context | undefined
    const { execute } = trial.start(twoPhases((context) => void (late = context)))
    expect((await execute()).type).toBe('completed')
    expect(() => late?.write(note(late, 'late'))).toThrow("tx, write or stage of phase 'a' was used after")
    expect(await trial.noted()).toEqual([])
  })

  test('costs no round trip, and a phase that only writes is one message', async () => {
    const { execute, steps } = trial.start(
      pipeline<null>({ name: 'one', version: 1 }).finish((context) => {
        context.write(note(context, 'one'))
        return respond(200)
      }),
    )
    expect((await execute()).type).toBe('completed')
    expect(steps).toEqual(['insert_key', 'begin', 'query', 'finish_key', 'commit'])
  })
})

/** A request of four writes, which fails with the last of them if that is null. */
const ordered = (last: string | null) =>
  pipeline<null>({ name: 'ordered', version: 1 }).finish((context) => {
    context.write(note(context, 'one'))
    context.write(context.tx.updateTable('audit').set({ what: 'two' }).where('what', '=', 'one'))
    context.write(context.tx.deleteFrom('audit').where('what', '=', 'one'))
    context.write(note(context, last as never))
    return respond(200)
  })

describe.each([
  ['one by one', { pipelining: false }],
  ['together', {}],
  ['together, and prepared', { preparedStatements: true, preparedQueries: true }],
])('where statements are sent %s', (_, options) => {
  test('writes keep their order, and all or none are committed', async () => {
    for (const [last, outcome, left] of [
      [null, 'retry_later', []],
      ['three', 'completed', ['three', 'two']],
    ] as const) {
      const defined = ordered(last)
      const engine = createEngine({
        pool: database.pool(),
        pipelines: [defined],
        schema: database.schema,
        ...options,
      })
      for (let times = 0; times < (last === null ? 8 : 1); times++) {
        const request = { scope: 's', key: randomUUID(), input: null }
        expect((await engine.execute(defined, request)).type).toBe(outcome)
      }
      expect(await trial.noted()).toEqual(left)
      await engine.close()
    }
  })
})
