import { randomUUID } from 'node:crypto'
import { createOperator, type Operator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { seedJob, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let operator: Operator
beforeEach(async () => {
  database = await TestDatabase.create()
  operator = createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })
})
afterEach(() => database.drop())

const because = { actor: 'anna@ops-1', reason: 'put right' }

const audit = () =>
  database.rows<{ key_id: string; scope: string | null; action: string; detail: unknown }>(
    'SELECT key_id, scope, action, actor, reason, detail FROM pawl.interventions ORDER BY created_at',
  )

describe('dead jobs', () => {
  test('are listed with those that have been dead longest first', async () => {
    await seedJob(database, { name: 'b', deadAgo: '1 min' })
    await seedJob(database, { name: 'a', deadAgo: '2 min' })
    await seedJob(database, { name: 'alive' })
    expect((await operator.deadJobs()).map(({ name }) => name)).toEqual(['a', 'b'])
    expect((await operator.deadJobs({ limit: 1 })).map(({ name }) => name)).toEqual(['a'])
    expect((await operator.deadJobs({ name: 'b' })).map(({ name }) => name)).toEqual(['b'])
    await expect(operator.deadJobs({ limit: 0 })).rejects.toThrow(/limit/)
    await expect(operator.deadJobs({ nam: 'b' } as never)).rejects.toThrow(/'nam'/)
  })

  test('are requeued by id as if they were new, and each is recorded', async () => {
    const keyId = await seedKey(database, { scope: 'anna', key: 'k1' })
    const dead = await seedJob(database, { name: 'a', keyId, deadAgo: '1 min' })
    const other = await seedJob(database, { deadAgo: '1 min' })
    const alive = await seedJob(database, { name: 'alive' })
    expect(await operator.requeue({ jobIds: [dead, alive, randomUUID()] }, because)).toBe(1)
    const [row] = await database.rows(
      `SELECT dead_at, attempts, claim, claim_until, run_after <= clock_timestamp() AS due, last_error
         FROM pawl.staged_jobs WHERE id = $1`,
      [dead],
    )
    expect(row).toEqual({
      dead_at: null,
      attempts: 0,
      claim: null,
      claim_until: null,
      due: true,
      last_error: 'queue away',
    })
    expect((await operator.deadJobs()).map(({ jobId }) => jobId)).toEqual([other])
    expect(await database.rows('SELECT attempts FROM pawl.staged_jobs WHERE id = $1', [alive])).toEqual([
      { attempts: 7 },
    ])
    expect(await audit()).toMatchObject([
      {
        ...because,
        action: 'requeue',
        key_id: keyId,
        scope: 'anna',
        detail: {
          before: { jobId: dead, name: 'a', attempts: 7, lastError: 'queue away' },
          given: { by: 'id' },
        },
      },
    ])
  })

  test('are requeued by name, or all of them, in batches, and each is recorded, even when its key is gone', async () => {
    await seedJob(database, { name: 'a', deadAgo: '1 min' })
    await seedJob(database, { name: 'b', deadAgo: '1 min' })
    expect(await operator.requeue({ name: 'a' }, because)).toBe(1)
    expect(await operator.requeue({ name: 'a' }, because)).toBe(0)
    expect(await audit()).toMatchObject([{ scope: 's', detail: { given: { name: 'a' } } }])
    await database.rows(
      `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, dead_at)
       SELECT gen_random_uuid(), 's', 1, 'c', '{}', gen_random_uuid(), clock_timestamp() FROM generate_series(1, 1100)`,
    )
    expect(await operator.requeue({ all: true }, because)).toBe(1_101)
    expect(await operator.deadJobs()).toEqual([])
    expect(await audit()).toHaveLength(1_102)
  })

  test('are requeued once each by two concurrent operators', async () => {
    await database.rows(
      `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, dead_at)
       SELECT gen_random_uuid(), 's', 1, 'c', '{}', gen_random_uuid(), clock_timestamp() FROM generate_series(1, 1100)`,
    )
    const second = createOperator({ pool: database.pool(), schema: database.schema })
    const counts = await Promise.all([operator, second].map((each) => each.requeue({ all: true }, because)))
    // Each leaves what the other has locked, so a third round has to find whatever both have left.
    const rest = await operator.requeue({ all: true }, because)
    expect((counts[0] ?? 0) + (counts[1] ?? 0) + rest).toBe(1_100)
    expect(await audit()).toHaveLength(1_100)
  })

  test.each([
    [{}, /one of jobIds, name and all/],
    [{ all: true, name: 'a' }, /one of jobIds, name and all/],
    [{ all: false }, /all is false/],
    [{ jobIds: 'x' }, /jobIds/],
    [{ jobIds: ['x'] }, /jobIds/],
    [{ name: '' }, /name/],
    [null, /object/],
  ])('%o is refused', async (jobs, message) => {
    await expect(operator.requeue(jobs as never, because)).rejects.toThrow(message)
  })
})
