import { createOperator, migrate, migrationSql } from '@pawl/core'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { randomLetters } from '../support/random-letters.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideOf, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.createNew()
await createRideTables(database)
await database.rows(
  'ALTER TABLE rides DROP CONSTRAINT IF EXISTS rides_key_id_fkey, DROP CONSTRAINT IF EXISTS rides_key_id_rider_fkey',
)
const pool = database.pool({ max: 2 })
let schema: string
const schemas: string[] = []
beforeEach(() => {
  schema = `${database.schema}_${randomLetters()}`
  schemas.push(schema)
})
afterAll(async () => {
  await database.admin.query(`DROP SCHEMA IF EXISTS ${schemas.join(', ')} CASCADE`)
  await database.drop()
})

const partitionsOf = async (table: string) =>
  (await database.rows(`SELECT FROM pg_inherits WHERE inhparent = '${schema}.${table}'::regclass`)).length

const DIVIDED = ['idempotency_keys', 'effects', 'staged_jobs']

describe('the layout partitioned', () => {
  test('divides keys, effects and jobs, and is kept by whoever migrates without asking for it', async () => {
    await migrate(pool, { schema, layout: 'partitioned', partitions: 3 })
    for (const table of DIVIDED) expect(await partitionsOf(table)).toBe(3)
    expect(await migrate(pool, { schema })).toEqual({ applied: 0 })
    expect(await migrate(pool, { schema, layout: 'partitioned', partitions: 3 })).toEqual({ applied: 0 })
  })

  test('has 16 partitions unless told otherwise, and its SQL can be printed', async () => {
    await database.admin.query(migrationSql({ schema, layout: 'partitioned' }))
    for (const table of DIVIDED) expect(await partitionsOf(table)).toBe(16)
    expect(await migrate(pool, { schema })).toEqual({ applied: 0 })
  })

  test('is told by status and doctor', async () => {
    await migrate(pool, { schema, layout: 'partitioned', partitions: 2 })
    const operator = createOperator({ pool, schema })
    expect((await operator.status()).layout).toEqual({ kind: 'partitioned', partitions: 2 })
    const findings = await operator.doctor()
    expect(findings.find(({ check }) => check === 'schema')?.detail).toContain(
      'Its layout is partitioned (2).',
    )
    expect(findings.filter(({ check, level }) => check === 'indexes' && level !== 'ok')).toEqual([])
  })

  test('leaves a key to one partition, whichever scope it has', async () => {
    await migrate(pool, { schema, layout: 'partitioned', partitions: 4 })
    const trials = Array.from({ length: 12 }, () => new RideTrial(database, createRideOf, { schema }))
    for (const trial of trials) {
      const engine = createEngine(trial.options())
      expect((await trial.execute(engine)).type).toBe('completed')
      expect((await trial.execute(engine)).type).toBe('replayed')
      await engine.close()
    }
    const rows = await database.rows<{ place: string }>(
      `SELECT tableoid::regclass::text AS place FROM ${schema}.idempotency_keys`,
    )
    expect(rows).toHaveLength(trials.length)
    expect(new Set(rows.map(({ place }) => place)).size).toBeGreaterThan(1)
  })
})

describe('migrate', () => {
  test('says what the layout citus needs where there is no Citus, and changes nothing', async () => {
    await expect(migrate(pool, { schema, layout: 'citus' })).rejects.toMatchObject({
      code: 'PAWL_UNSUPPORTED_SERVER',
      message: expect.stringContaining(
        'CREATE EXTENSION citus; there and in a database of that name',
      ) as string,
    })
    expect(await database.rows('SELECT FROM pg_namespace WHERE nspname = $1', [schema])).toEqual([])
  })

  test.each([
    ['plain', 'partitioned (2)', { layout: 'plain' }, { layout: 'partitioned', partitions: 2 }],
    ['partitioned (2)', 'plain', { layout: 'partitioned', partitions: 2 }, { layout: 'plain' }],
    [
      'partitioned (2)',
      'partitioned (3)',
      { layout: 'partitioned', partitions: 2 },
      { layout: 'partitioned', partitions: 3 },
    ],
  ] as const)('changes no layout from %s to %s', async (has, wanted, first, second) => {
    await migrate(pool, { schema, ...first })
    await expect(migrate(pool, { schema, ...second })).rejects.toMatchObject({
      code: 'PAWL_OTHER_LAYOUT',
      message: expect.stringContaining(`are ${has}, and ${wanted} was asked for`) as string,
    })
  })

  test.each([
    [{ layout: 'hashed' }, "layout is 'hashed'; it takes one of 'plain', 'partitioned', 'citus'"],
    [{ partitions: 4 }, "partitions is 4; it takes nothing unless layout is 'partitioned'"],
    [{ shards: 4 }, "shards is 4; it takes nothing unless layout is 'citus'"],
    [{ layout: 'partitioned', partitions: 1 }, 'partitions is 1; it takes a whole number of 2 or more'],
    [{ layout: 'partitioned', partitions: 1_000 }, 'partitions is 1000; it takes at most 256'],
  ])('refuses %j', async (options, message) => {
    const wrong = { code: 'PAWL_INVALID_OPTION', message: expect.stringContaining(message) as string }
    await expect(migrate(pool, { schema, ...options } as never)).rejects.toMatchObject(wrong)
    expect(() => migrationSql({ schema, ...options } as never)).toThrow(message)
  })
})
