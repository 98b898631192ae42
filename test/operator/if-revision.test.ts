import { createOperator, type Intervention, type Operator, type SteerOptions } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
afterAll(() => database.drop())
const operatorOn = (): Operator =>
  createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })
const operator = operatorOn()

const AT_ONCE = 20
const inDays = (days: number): Date => new Date(Date.now() + days * 86_400_000)
const because = (actor: string) => ({ actor, reason: 'it has to move' })

type Step = (by: Operator, keyId: string, actor: string, options: SteerOptions) => Promise<Intervention>
const STEPS: readonly (readonly [string, object, Step])[] = [
  [
    'unstick',
    { status: 'stuck' },
    (by, keyId, actor, options) => by.unstick({ keyId }, because(actor), undefined, options),
  ],
  [
    'revoke',
    { leaseIn: '10 min' },
    (by, keyId, actor, options) => by.revoke({ keyId }, because(actor), options),
  ],
  [
    'answer',
    { status: 'stuck' },
    (by, keyId, actor, options) => by.answer({ keyId }, because(actor), { status: 410 }, options),
  ],
  [
    'extend',
    { status: 'finished' },
    (by, keyId, actor, options) => by.extend({ keyId }, because(actor), inDays(30), options),
  ],
  [
    'forget',
    { status: 'finished' },
    (by, keyId, actor, options) => by.forget({ keyId }, because(actor), options),
  ],
]

async function revisionOf(keyId: string): Promise<number> {
  const report = await operator.show({ keyId })
  return report?.key.revision ?? -1
}

describe.each(STEPS)('of many who %s a key that all of them have looked at', (action, seed, step) => {
  test('one gets through, and all others are told who that was', async () => {
    const keyId = await seedKey(database, seed)
    const ifRevision = await revisionOf(keyId)
    const operators = Array.from({ length: AT_ONCE }, operatorOn)
    const ends = await Promise.all(operators.map((by, n) => step(by, keyId, `operator ${n}`, { ifRevision })))
    const winners = ends.flatMap(({ type }, n) => (type === 'done' ? [n] : []))
    expect(winners).toHaveLength(1)
    const others = ends.filter(({ type }) => type !== 'done')
    expect(others).toHaveLength(AT_ONCE - 1)
    for (const end of others) {
      // Whoever came to forget a key that was gone already has nothing to be refused for.
      expect(action === 'forget' ? ['refused', 'not_found'] : ['refused']).toContain(end.type)
      expect(end).toMatchObject({
        by: { actor: `operator ${winners[0]}`, action, at: expect.any(Date) as Date },
      })
    }
  })

  test('it is done for whoever has looked at it as it is', async () => {
    const keyId = await seedKey(database, seed)
    const ifRevision = await revisionOf(keyId)
    expect(await step(operator, keyId, 'anna', { ifRevision, dryRun: true })).toMatchObject({
      type: 'would_be_done',
    })
    expect(await step(operator, keyId, 'anna', { ifRevision })).toMatchObject({ type: 'done' })
  })

  test('nobody is named where an engine has changed it', async () => {
    const keyId = await seedKey(database, seed)
    const ifRevision = await revisionOf(keyId)
    await database.rows('UPDATE pawl.idempotency_keys SET revision = revision + 1 WHERE id = $1', [keyId])
    const end = await step(operator, keyId, 'anna', { ifRevision })
    expect(end).toMatchObject({
      type: 'refused',
      by: null,
      detail: expect.stringContaining('It has changed since it was looked at: it is') as string,
    })
    expect((await operator.show({ keyId }))?.interventions).toEqual([])
  })
})

test('an intervention from before the look is not the one that was first', async () => {
  const keyId = await seedKey(database, { leaseIn: '10 min' })
  await operator.revoke({ keyId }, because('earlier'))
  const ifRevision = await revisionOf(keyId)
  await database.rows(
    `UPDATE pawl.idempotency_keys SET revision = revision + 1, lease_until = now() + interval '1 h' WHERE id = $1`,
    [keyId],
  )
  expect(await operator.revoke({ keyId }, because('anna'), { ifRevision })).toMatchObject({
    type: 'refused',
    by: null,
  })
})

test('whoever only looks is not first', async () => {
  const keyId = await seedKey(database, { status: 'stuck' })
  const ifRevision = await revisionOf(keyId)
  await operator.unstick({ keyId }, because('first'))
  await operator.reveal({ keyId }, because('curious'))
  expect(await operator.unstick({ keyId }, because('anna'), undefined, { ifRevision })).toMatchObject({
    type: 'refused',
    by: { actor: 'first' },
    detail: expect.stringContaining("Somebody was first: first did 'unstick' at 20") as string,
  })
})

test('whoever finds it forgotten is told by whom, by its name as by its id', async () => {
  const of = { scope: 'gone', key: 'forgotten' }
  const keyId = await seedKey(database, { ...of, status: 'finished' })
  const ifRevision = await revisionOf(keyId)
  await operator.forget(of, because('first'))
  const by = { actor: 'first', action: 'forget' }
  expect(await operator.extend({ keyId }, because('anna'), inDays(2), { ifRevision })).toMatchObject({
    type: 'not_found',
    by,
  })
  expect(await operator.forget(of, because('anna'), { ifRevision })).toMatchObject({ type: 'not_found', by })
  // Who has never looked at it has nobody to be told about.
  expect(await operator.forget(of, because('anna'))).toEqual({ type: 'not_found', by: null })
})

test('a revision is a whole number', async () => {
  await expect(
    operator.revoke({ scope: 's', key: 'k' }, because('anna'), { ifRevision: '1' as never }),
  ).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
    message: expect.stringContaining('ifRevision is') as string,
  })
})

test('of two who deliver dead jobs again, or erase, each is told how much was left for them', async () => {
  await database.rows(
    `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, dead_at)
     SELECT gen_random_uuid(), 's', n, 'mail', '{}', gen_random_uuid(), clock_timestamp() - interval '1 min' FROM generate_series(1, 700) AS n`,
  )
  const counts = await Promise.all(
    [operatorOn(), operatorOn()].map((by) => by.requeue({ name: 'mail' }, because('anna'))),
  )
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(700)
  expect(await operator.requeue({ name: 'mail' }, because('anna'))).toBe(0)
})
