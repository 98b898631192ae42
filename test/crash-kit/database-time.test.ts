import { expect, test } from 'vitest'
import type { KitDatabase } from '../../packages/crash-kit/src/database/kit-database.js'
import { KIT, type Row } from '../../packages/crash-kit/src/history.js'
import { connect, insertKey, kitWith } from './kit-with.js'

const MOMENTS = ['created_at', 'updated_at', 'lease_until', 'run_after', 'unstuck_at', 'expires_at']

async function row(kit: KitDatabase): Promise<Row> {
  const found = await kit.keyRow('s', 'k')
  if (found === null) throw new Error('The key is not there.')
  return found
}

/** A key, and the connection that wrote it. */
async function keyWith(columns: string) {
  const kit = await kitWith()
  const client = await connect(kit, 'client')
  await insertKey(client, kit, 'k')
  await client.query(`UPDATE ${kit.pawlSchema}.idempotency_keys SET ${columns}`)
  return { kit, client }
}

const ALL_MOMENTS = `
  created_at = '2020-01-01 00:00:01.000001Z', updated_at = '2020-01-01 00:00:02Z', lease_until = '2020-01-01 00:00:03Z',
  run_after = '2020-01-01 00:00:04Z', unstuck_at = '2020-01-01 00:00:05Z', expires_at = '2020-01-01 00:00:06Z',
  trail = '[{"p": "a", "t": 1500000001000, "f": 1}, {"p": "b", "t": 1500000002000, "f": 2, "s": true}]'`

test.each([
  ['calling', 'deadlineMs'],
  ['not_made', 'atMs'],
])('time passes for every time in the row (intent %s)', async (kind, field) => {
  const { kit } = await keyWith(
    `${ALL_MOMENTS}, intent = '{"kind": "${kind}", "phase": "c", "${field}": 1500000003000}'`,
  )
  const before = await row(kit)
  expect(await kit.passTime('s', 'k', 86_400_000)).toBe('passed')

  const after = await row(kit)
  for (const column of MOMENTS) {
    expect(after[column], column).toBe((before[column] as string).replace('2020-01-01', '2019-12-31'))
  }
  expect(after['trail']).toEqual([
    { p: 'a', t: 1_499_913_601_000, f: 1 },
    { p: 'b', t: 1_499_913_602_000, f: 2, s: true },
  ])
  expect(after['intent']).toEqual({ kind, phase: 'c', [field]: 1_499_913_603_000 })
  const moved = [...MOMENTS, 'trail', 'intent']
  const rest = (of: Row): Row =>
    Object.fromEntries(Object.entries(of).filter(([name]) => !moved.includes(name)))
  expect(rest(after)).toEqual(rest(before))

  expect(await kit.passTime('s', 'k', -86_400_000)).toBe('passed')
  expect(await row(kit)).toEqual(before)
})

test('to another server, times are further away, and a call was declared by somebody else', async () => {
  const { kit, client } = await keyWith(ALL_MOMENTS)
  const before = await row(kit)
  const changed = async (intent: object, aheadMs: number): Promise<Row> => {
    const written = [JSON.stringify(intent)]
    await client.query(`UPDATE ${kit.pawlSchema}.idempotency_keys SET intent = $1`, written)
    expect(await kit.changeServer('s', 'k', aheadMs)).toBe('passed')
    return row(kit)
  }
  const calling = { kind: 'calling', phase: 'c', deadlineMs: 1_500_000_003_000, server: '7' }
  const ahead = await changed(calling, 86_400_000)
  expect(ahead['intent']).toEqual({
    ...calling,
    deadlineMs: 1_499_913_603_000,
    server: expect.not.stringMatching(/^7$/) as string,
  })
  for (const column of MOMENTS)
    expect(ahead[column]).toBe((before[column] as string).replace('2020-01-01', '2019-12-31'))

  const called = { kind: 'called', phase: 'c', result: { server: '7' } }
  const behind = await changed(called, -86_400_000)
  expect(behind['intent']).toEqual(called)
  expect(behind).toMatchObject(Object.fromEntries(MOMENTS.map((column) => [column, before[column]])))
})

test('time that passes is in the history, as a change by the kit', async () => {
  const { kit } = await keyWith('attempts = 1')
  const mark = await kit.mark()
  await kit.passTime('s', 'k', 1)
  await kit.expireLease('s', 'k')
  expect((await kit.commitsSince(mark)).map(({ actor }) => actor)).toEqual([KIT, KIT])
})

test('time passes for one key only', async () => {
  const { kit, client } = await keyWith('attempts = 1')
  await insertKey(client, kit, 'other')
  const other = await kit.keyRow('s', 'other')
  await kit.passTime('s', 'k', 1_000)
  await kit.expireLease('s', 'k')
  expect(await kit.keyRow('s', 'other')).toEqual(other)
})

test('times that are null stay null', async () => {
  const { kit } = await keyWith('lease_until = NULL, run_after = NULL, expires_at = NULL, intent = NULL')
  await kit.passTime('s', 'k', 1_000)
  await kit.expireLease('s', 'k')
  expect(await row(kit)).toMatchObject({
    lease_until: null,
    run_after: null,
    expires_at: null,
    intent: null,
    trail: [],
  })
})

test('the lease runs out, the back-off is over, and nothing else changes', async () => {
  const { kit, client } = await keyWith(`run_after = clock_timestamp() + interval '1 hour'`)
  const before = await row(kit)
  expect(await kit.expireLease('s', 'k')).toBe('passed')
  const after = await row(kit)
  const { rows } = await client.query(
    `SELECT lease_until <= clock_timestamp() AS lease, run_after <= clock_timestamp() AS back_off,
            lease_until > clock_timestamp() - interval '1 minute' AS just_now
       FROM ${kit.pawlSchema}.idempotency_keys`,
  )
  expect(rows).toEqual([{ lease: true, back_off: true, just_now: true }])
  expect({ ...after, lease_until: 0, run_after: 0 }).toEqual({ ...before, lease_until: 0, run_after: 0 })

  await kit.expireLease('s', 'k')
  // What is already over stays as it is.
  expect(await row(kit)).toEqual(after)
})

test('a missing key, or one whose row somebody has locked, is reported and left alone', async () => {
  const { kit, client } = await keyWith('attempts = 1')
  expect(await kit.passTime('s', 'nobody', 1)).toBe('no_key')
  expect(await kit.expireLease('s', 'nobody')).toBe('no_key')
  const before = await row(kit)
  await client.query(`BEGIN; UPDATE ${kit.pawlSchema}.idempotency_keys SET attempts = 2`)
  expect(await kit.passTime('s', 'k', 1_000)).toBe('locked')
  expect(await kit.expireLease('s', 'k')).toBe('locked')
  await client.query('ROLLBACK')
  expect(await row(kit)).toEqual(before)
})
