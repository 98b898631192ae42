import { pawl, type Pipeline, respond } from '@pawl/core'
import { crashKit, type CrashKitOptions, type FaultName, type Finding } from '@pawl/crash-kit'
import { type Generated, sql } from 'kysely'
import { expect, test } from 'vitest'
import { whereabouts } from './ride-kit.js'

interface Database {
  notes: { id: Generated<number>; text: string }
}

const { pipeline } = pawl<Database>()
type Noting = Pipeline<Database, null>

const TABLES = 'CREATE TABLE notes (id serial PRIMARY KEY, text text NOT NULL)'

/** Resolves to the kit's finding about a pipeline; null if there is none. */
async function findIn(
  noting: () => Noting,
  faults: readonly FaultName[] = ['crash'],
  engine: CrashKitOptions<Database, null>['engine'] = {},
): Promise<Finding | null> {
  const kit = crashKit<Database, null>({
    pipeline: noting,
    pool: whereabouts(),
    prepare: async ({ pool }) => void (await pool.query(TABLES)),
    request: { scope: 'anybody', input: null },
    engine,
  })
  try {
    await kit.exhaustive({ faults })
    return null
  } catch (error) {
    if (error instanceof Error && error.name === 'Finding') return error as Finding
    throw error
  } finally {
    await kit.close()
  }
}

const begin = () => pipeline<null>({ name: 'noting', version: 1 })
const lint = (title: string, detail: string) => ({
  rule: 'lint',
  title,
  detail: expect.stringContaining(detail) as string,
})
const NOT_AWAITED = 'every query of a phase is awaited'

test('a query that a phase does not await is found in the clean run, and named', async () => {
  const finding = await findIn(() =>
    begin()
      .local('noted', async ({ tx }) => {
        await tx.insertInto('notes').values({ text: 'awaited' }).execute()
        void tx.insertInto('notes').values({ text: 'forgotten' }).execute()
      })
      .finish(() => respond(204)),
  )
  expect(finding?.title).toBe('no fault at all')
  expect(finding?.violations[0]).toMatchObject(
    lint(
      NOT_AWAITED,
      `The query insert into "notes" ("text") values ($1) in 'noted' of client was not awaited`,
    ),
  )
})

test('a query of a function that returns no promise, and a job, are found as well', async () => {
  const query = await findIn(() =>
    begin()
      .local('noted', ({ tx }) => void tx.insertInto('notes').values({ text: 'forgotten' }).execute())
      .finish(() => respond(204)),
  )
  expect(query?.violations[0]).toMatchObject(lint(NOT_AWAITED, `in 'noted' of client`))
  const job = await findIn(() =>
    begin().finish(({ stage }) => {
      void stage('send_note', null)
      return respond(204)
    }),
  )
  expect(job?.violations[0]).toMatchObject(lint(NOT_AWAITED, `The job send_note in 'finished' of client`))
})

test('queries in parallel, in sequence, and of a body that throws are not a finding', async () => {
  const failed = new Set<string>()
  const noting = () =>
    begin()
      .local('noted', async ({ tx, stage, keyId }) => {
        await Promise.all([
          tx.insertInto('notes').values({ text: 'one' }).execute(),
          tx.insertInto('notes').values({ text: 'other' }).execute(),
          stage('send_note', null),
        ])
        await tx.selectFrom('notes').selectAll().execute()
        if (failed.has(keyId)) return
        failed.add(keyId)
        void tx
          .insertInto('notes')
          .values({ text: 'undone' })
          .execute()
          .catch(() => {})
        // A real 40001, so that the transaction is tried again.
        await sql`DO $$ BEGIN RAISE serialization_failure; END $$`.execute(tx)
      })
      .finish(async ({ stage }) => {
        await stage('send_note', null)
        return respond(204)
      })
  const finding = await findIn(noting, ['memory'])
  expect(finding?.message).toBeUndefined()
})

/** Writes a note if `when` returns true. */
const notingWhen = (when: () => boolean) => () =>
  begin()
    .local(
      'noted',
      async ({ tx }) => {
        await tx.insertInto('notes').values({ text: 'noted' }).execute()
      },
      { when },
    )
    .finish(() => respond(204))

const DECIDES = 'a `when` decides the same in every run'

test('a `when` that decides differently in two clean runs is reported before the differences that it causes', async () => {
  let runs = 0
  const finding = await findIn(notingWhen(() => ++runs > 1))
  expect(finding?.title).toBe('no fault at all')
  expect(finding?.violations).toEqual([
    lint(
      DECIDES,
      "'noted' ran, but was skipped in a run without faults: its `when` looks at something besides",
    ),
  ])
})

test('a `when` that decides differently after a fault is reported', async () => {
  // Each engine of the kit has a pipeline of its own, and the third one is not one of a clean run.
  let made = 0
  const finding = await findIn(() => {
    const [nth, isClean] = [++made, () => nth < 8]
    return notingWhen(isClean)()
  })
  expect(finding?.violations[0]).toMatchObject(lint(DECIDES, "'noted' was skipped, but ran in a run without"))
  expect(finding?.title).not.toBe('no fault at all')
})

test('a conflict strikes even if phases wait for a lock for no longer than a millisecond', async () => {
  const impatient = { lockTimeoutMs: 1, statementTimeoutMs: 60, idleTimeoutMs: 60, leaseMs: 600 }
  const noting = notingWhen(() => true)
  const finding = await findIn(noting, ['serializationFailure', 'statementTimeout'], { defaults: impatient })
  expect(finding?.message).toBeUndefined()
})
