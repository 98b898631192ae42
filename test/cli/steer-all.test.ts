import { createOperator, type Engine } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createEngine, type Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { breakImport, importOrderOn, mendImport, ORDER, sendParcel } from './filled-database.js'
import { pawlOn } from './pawl.js'

let database: TestDatabase
let engine: Engine<Database>
beforeEach(async () => {
  database = await TestDatabase.create()
  const pipelines = [importOrderOn(database), sendParcel]
  engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines })
  breakImport(database, 'no such column')
})
afterEach(async () => {
  await engine.close()
  await database.drop()
})

const REASON = ['--reason', 'Ticket 4711']
const POISON = ['--pipeline', 'import-order']

/** Stuck keys of one pipeline, and one of another whose call is in doubt. */
async function fillWith(poison: number): Promise<void> {
  const target = importOrderOn(database)
  const own = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [target] })
  for (let n = 0; n < poison; n++) {
    const request = { scope: n % 2 === 0 ? 'even' : 'odd', key: `k${n}`, input: ORDER }
    while ((await own.execute(target, request)).type !== 'stuck');
  }
  await own.close()
  await engine.execute(sendParcel, { scope: 'even', key: 'in doubt', input: ORDER })
}

const statuses = async () =>
  Object.fromEntries(
    (
      await database.rows<{ key: string; status: string }>(
        `SELECT key, status FROM pawl.idempotency_keys ORDER BY key`,
      )
    ).map(({ key, status }) => [key, status]),
  )
const notes = () =>
  database.rows(
    `SELECT k.key, i.action, i.actor, i.reason FROM pawl.interventions AS i
       JOIN pawl.idempotency_keys AS k ON k.id = i.key_id ORDER BY k.key`,
  )

describe('unstick --all', () => {
  test('unsticks every stuck key that matches, with a record for each', async () => {
    await fillWith(3)
    mendImport(database)
    const dry = await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON, '--dry-run')
    expect(dry).toMatchObject({ exit: 0, err: '' })
    expect(dry.out).toMatch(/^even +k0 +import-order@1 +order_read +attempts_exhausted +would be done$/m)
    expect(dry.out).toContain('3 keys would be unstuck. Nothing was changed')
    expect(await notes()).toEqual([])
    expect(await statuses()).toEqual({ 'in doubt': 'stuck', k0: 'stuck', k1: 'stuck', k2: 'stuck' })

    const said = await pawlOn(database, 'unstick', '--all', ...POISON, '--scope', 'even', ...REASON)
    expect(said).toMatchObject({
      exit: 0,
      out: expect.stringContaining('Unstuck 2 keys.') as string,
      err: '',
    })
    expect(await statuses()).toEqual({ 'in doubt': 'stuck', k0: 'running', k1: 'stuck', k2: 'running' })
    const note = { action: 'unstick', actor: 'anna@ops-1', reason: 'Ticket 4711' }
    expect(await notes()).toEqual([
      { key: 'k0', ...note },
      { key: 'k2', ...note },
    ])
  })

  test('leaves a key whose call is in doubt alone, and says so', async () => {
    await fillWith(1)
    for (const [mode, wouldBe] of [
      [['--dry-run'], 'would_be_done'],
      [[], 'done'],
    ] as const) {
      const said = await pawlOn(database, 'unstick', '--all', '--scope', 'even', ...REASON, ...mode, '--json')
      expect(said.exit).toBe(3)
      expect(JSON.parse(said.out)).toMatchObject({
        left: 1,
        untried: 0,
        keys: [
          { key: 'k0', result: wouldBe, detail: null },
          {
            key: 'in doubt',
            result: 'refused',
            detail: expect.stringContaining('nobody knows whether') as string,
          },
        ],
      })
    }
    expect(await statuses()).toEqual({ 'in doubt': 'stuck', k0: 'running' })
  })

  test('changes nothing when more keys match than the limit allows, and a dry run says so', async () => {
    await fillWith(3)
    const said = await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON, '--limit', '2')
    expect(said).toMatchObject({
      exit: 1,
      out: '',
      err: expect.stringContaining('more than 2 stuck keys match') as string,
    })
    expect(await notes()).toEqual([])
    const dry = await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON, '--limit', '2', '--dry-run')
    expect(dry.out).toContain('2 keys would be unstuck.')
    expect(dry.out).toContain('More than 2 match')
  })

  test('says so when no key matches', async () => {
    const said = await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON)
    expect(said).toMatchObject({ exit: 0, out: 'No stuck key matches. Nothing was changed.\n' })
  })

  test('takes no running key, even one that matches', async () => {
    await fillWith(1)
    await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON)
    expect(await statuses()).toMatchObject({ k0: 'running' })
    const again = await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON)
    expect(again.out).toBe('No stuck key matches. Nothing was changed.\n')
    expect(await notes()).toHaveLength(1)
  })
})

test('answer --all answers every stuck key that matches', async () => {
  await fillWith(2)
  const args = ['answer', '--all', ...POISON, '--status', '410', ...REASON]
  expect((await pawlOn(database, ...args, '--dry-run')).out).toContain('2 keys would be answered.')
  expect(await statuses()).toMatchObject({ k0: 'stuck', k1: 'stuck' })
  expect(await pawlOn(database, ...args)).toMatchObject({
    exit: 0,
    out: expect.stringContaining('Answered 2 keys.') as string,
  })
  expect(await statuses()).toEqual({ 'in doubt': 'stuck', k0: 'finished', k1: 'finished' })
  expect(await notes()).toHaveLength(2)
})

test('unstick --all stops when the database does not answer, and reports what was done before', async () => {
  await fillWith(2)
  // A trigger fails at the second of them.
  await database.rows(`
    CREATE FUNCTION pawl.fail() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END $$;
    CREATE TRIGGER fail BEFORE UPDATE ON pawl.idempotency_keys
      FOR EACH ROW WHEN (OLD.key = 'k1') EXECUTE FUNCTION pawl.fail()`)
  const said = await pawlOn(database, 'unstick', '--all', ...POISON, ...REASON)
  expect(said.exit).toBe(1)
  expect(said.out).toContain('Unstuck 1 key.\n1 key was not tried.\n')
  expect(said.err).toContain('disk full')
  expect(await statuses()).toMatchObject({ k0: 'running', k1: 'stuck' })
})

test.each([
  [['unstick', '--all', ...REASON], '--all needs a filter'],
  [['unstick', '--all', ...POISON], '--reason is missing'],
  [['unstick', 's', 'k', ...POISON, ...REASON], '--pipeline can be used only with --all'],
  [['unstick', 's', 'k', '--limit', '3', ...REASON], '--limit can be used only with --all'],
  [['unstick', 's', 'k', '--all', ...POISON, ...REASON], "'s' is one argument too many together with --all"],
  [['unstick', '--all', ...POISON, ...REASON, '--result', '1'], '--result belongs to one call'],
  [['unstick', '--all', ...POISON, ...REASON, '--not-executed'], '--not-executed with --all needs --phase'],
  [['answer', '--all', '--status', '410', ...REASON], '--all needs a filter'],
  [['unstick', '--all', ...POISON, ...REASON, '--limit', '501'], '--limit'],
])('%j is wrong usage', async (argv, message) => {
  const said = await pawlOn(database, ...argv)
  expect(said).toMatchObject({ exit: 2, out: '', err: expect.stringContaining(message) as string })
})

test('--dry-run works for a single key, too', async () => {
  await fillWith(1)
  for (const argv of [
    ['unstick', 'even', 'k0', ...REASON, '--dry-run'],
    ['answer', 'even', 'k0', '--status', '410', ...REASON, '--dry-run'],
  ])
    expect(await pawlOn(database, ...argv)).toMatchObject({
      exit: 0,
      out: expect.stringContaining('It can be done.') as string,
    })
  expect(await pawlOn(database, 'revoke', 'even', 'k0', ...REASON, '--dry-run')).toMatchObject({ exit: 1 })
  expect(await notes()).toEqual([])
  const operator = createOperator({ pool: database.pool(), schema: database.schema })
  const because = { actor: 'a', reason: 'r' }
  await expect(
    operator.unstick({ scope: 'even', key: 'k0' }, because, undefined, { dryRun: 'yes' as never }),
  ).rejects.toThrow("dryRun is 'yes'; it takes true or false")
})
