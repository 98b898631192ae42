import { randomUUID } from 'node:crypto'
import { createEngine, type Outcome, pawl, type PipelineSettings, respond } from '@pawl/core'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, expect, test } from 'vitest'
import { BOUND, guarded } from '../support/guards.js'
import { TestDatabase } from '../support/test-database.js'
import { createFactTables, type FactDatabase } from './pipelines/fact-tables.js'
import { amountOf } from '../support/amounts.js'
import { assertProperty } from './support/assert-property.js'

const RUNS = amountOf('runs')

/** Each case is two requests. */
const ENDED_RUNS = Math.ceil(RUNS / 5)

/** Statements that end a transaction, written in ways that are easy to miss. */
const DISGUISED = [
  '/* x */ commit',
  '-- x\ncommit',
  '; commit',
  'SELECT 1; COMMIT',
  'SELECT 1; COMMIT; BEGIN',
  '/* x */ end work',
  '/* x */ commit and chain',
  '/* x */ rollback',
  '/* x */ abort',
  'SELECT 1; ROLLBACK',
  'SELECT 1; ROLLBACK; BEGIN',
  '/* x */ rollback and chain',
] as const

/** The same, written plainly: these are refused before they are sent. */
const OPEN = [
  'commit',
  'COMMIT;',
  ' end',
  'abort',
  'rollback',
  'begin',
  'start transaction',
  'commit and chain',
] as const

/** Statements that PostgreSQL itself refuses inside a transaction. */
const IN_A_BLOCK = ['DO $$ BEGIN COMMIT; END $$', 'DO $$ BEGIN ROLLBACK; END $$'] as const

interface EndedCase {
  readonly text: string
  /** Facts that are written before it, and after it if its error is swallowed. */
  readonly before: number
  readonly after: number
  readonly swallowed: boolean
  readonly pipelining: boolean
  readonly isolation: NonNullable<PipelineSettings['isolation']>
}

const ended = (texts: readonly string[]): fc.Arbitrary<EndedCase> =>
  fc.record({
    text: fc.constantFrom(...texts),
    before: fc.nat({ max: 2 }),
    after: fc.nat({ max: 2 }),
    swallowed: fc.boolean(),
    pipelining: fc.boolean(),
    isolation: fc.constantFrom('read committed', 'repeatable read', 'serializable'),
  })

const database = await TestDatabase.create()
await createFactTables(database.admin, database.businessSchema)
afterAll(() => database.drop())
const pool = database.pool({ max: 2 })

/** What two requests in a row were told, and the numbers of the facts that are there. Only the first runs the text. */
async function run(
  each: EndedCase,
): Promise<{ told: readonly [Outcome, Outcome]; facts: readonly number[] }> {
  const scope = randomUUID()
  let isMet = false
  const pipeline = pawl<FactDatabase>()
    .pipeline<null>({ name: 'ends-itself', version: 1, isolation: each.isolation })
    .local('written', async ({ tx }) => {
      const write = async (first: number, count: number): Promise<void> => {
        for (let n = first; n < first + count; n++)
          await tx.insertInto('facts').values({ run: scope, phase: 'written', n, value: '0' }).execute()
      }
      await write(0, each.before)
      if (isMet) return
      isMet = true
      if (!each.swallowed) await sql.raw(each.text).execute(tx)
      else {
        await sql
          .raw(each.text)
          .execute(tx)
          .catch(() => {})
        await write(10, each.after).catch(() => {})
      }
    })
    .finish(() => respond(200, null))
  const { pipelining } = each
  const engine = createEngine<FactDatabase>(
    guarded({ pool, pipelines: [pipeline], schema: database.schema, pipelining }),
  )
  try {
    const request = { scope, key: 'key', input: null, ...BOUND }
    const told = [await engine.execute(pipeline, request), await engine.execute(pipeline, request)] as const
    const rows = await database.rows<{ n: number }>('SELECT n FROM facts WHERE run = $1 ORDER BY n', [scope])
    return { told, facts: rows.map(({ n }) => n) }
  } finally {
    await engine.close()
  }
}

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)
const isCommit = (text: string) => /commit|end work/i.test(text)

// Shows I15.
test('a phase that ended its own transaction is stuck at once, and nothing of it runs again', () =>
  assertProperty(
    fc.asyncProperty(ended(DISGUISED), async (each) => {
      const { told, facts } = await run(each)
      for (const outcome of told) expect(outcome).toMatchObject({ type: 'stuck', recoveryPoint: 'started' })
      expect(told[0]).toMatchObject({ lastError: expect.stringContaining("'written'") })
      // What the phase committed itself is there once. What it sent afterwards is not there at all.
      expect(facts).toEqual(isCommit(each.text) ? upTo(each.before) : [])
    }),
    ENDED_RUNS,
  ))

test('a phase whose COMMIT or ROLLBACK is refused before it is sent leaves nothing behind', () =>
  assertProperty(
    fc.asyncProperty(ended(OPEN), async (each) => {
      const { told, facts } = await run(each)
      const [first, second] = told
      expect(['stuck', 'retry_later']).toContain(first.type)
      expect(second.type).toBe(first.type === 'stuck' ? 'stuck' : 'completed')
      expect(facts).toEqual(first.type === 'stuck' ? [] : upTo(each.before))
    }),
    ENDED_RUNS,
  ))

test('a phase whose statement PostgreSQL refuses fails as with any other error', () =>
  assertProperty(
    fc.asyncProperty(ended(IN_A_BLOCK), async (each) => {
      const { told, facts } = await run(each)
      expect(told.map(({ type }) => type)).toEqual(['retry_later', 'completed'])
      expect(facts).toEqual(upTo(each.before))
    }),
    ENDED_RUNS,
  ))
