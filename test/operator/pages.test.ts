import { createOperator, type KeyFilter, type KeySummary, type Operator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { seedAll } from './seeded-conditions.js'

let database: TestDatabase
let operator: Operator
beforeEach(async () => {
  database = await TestDatabase.create()
  operator = createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })
})
afterEach(() => database.drop())

async function everyPage(filter: KeyFilter): Promise<KeySummary[][]> {
  const pages: KeySummary[][] = []
  for (let after: string | null = null; ;) {
    const { keys, next } = await operator.page({ ...filter, ...(after !== null && { after }) })
    pages.push([...keys])
    if (next === null) return pages
    after = next
  }
}

const namesOf = (keys: readonly KeySummary[]): string[] => keys.map(({ scope, key }) => `${scope} ${key}`)

describe('pages of a list', () => {
  test.each<KeyFilter['status']>(['unfinished', 'running', 'unattended', 'stuck', 'finished'])(
    'have together what a list of %s keys has, in its order',
    async (status = 'unfinished') => {
      await seedAll(database)
      const listed = await operator.list({ status })
      expect(listed).not.toHaveLength(0)
      const pages = await everyPage({ status, limit: 1 })
      expect(pages.every((page) => page.length === 1)).toBe(true)
      expect(namesOf(pages.flat())).toEqual(listed.map(({ scope, key }) => `${scope} ${key}`))
    },
  )

  test.each(['running', 'stuck', 'finished'] as const)(
    'leave out none and repeat none of many %s keys of one microsecond, whatever their names',
    async (status) => {
      const at = '2026-01-01T00:00:00.123456Z'
      const names = Array.from({ length: 25 }, (_, n) => `${['é', '"', '\u{1f600}', 'z'][n % 4] ?? ''}${n}`)
      for (const name of names) await seedKey(database, { scope: `s${name}`, key: `k ${name}`, status })
      await database.rows(
        `UPDATE pawl.idempotency_keys SET created_at = $1, expires_at = CASE WHEN status = 'finished' THEN $1::timestamptz END`,
        [at],
      )
      const pages = await everyPage({ status, limit: 10 })
      expect(pages.map(({ length }) => length)).toEqual([10, 10, 5])
      expect(new Set(namesOf(pages.flat()))).toEqual(new Set(names.map((name) => `s${name} k ${name}`)))
    },
  )

  test('running and stuck keys of one microsecond are merged in the order of the database', async () => {
    for (let n = 0; n < 12; n++)
      await seedKey(database, {
        scope: n % 3 === 0 ? 'ä' : 'z',
        key: `${n}`,
        status: n % 2 ? 'running' : 'stuck',
      })
    await database.rows(`UPDATE pawl.idempotency_keys SET created_at = '2026-01-01T00:00:00Z'`)
    const pages = await everyPage({ limit: 5 })
    expect(new Set(namesOf(pages.flat())).size).toBe(12)
    expect(pages.flat()).toHaveLength(12)
  })

  test('show what keys that came after the first page show', async () => {
    for (const [key, createdAgo] of [
      ['a', '3 min'],
      ['b', '2 min'],
    ] as const)
      await seedKey(database, { key, createdAgo })
    const first = await operator.page({ limit: 1 })
    await seedKey(database, { key: 'c', createdAgo: '1 min' })
    await seedKey(database, { key: 'before', createdAgo: '4 min' })
    const rest = await operator.page({ limit: 10, after: first.next ?? '' })
    expect(rest.keys.map(({ key }) => key)).toEqual(['b', 'c'])
    expect(rest.next).toBeNull()
  })

  test('have nothing of what clients sent and got', async () => {
    await seedKey(database, { status: 'finished' })
    await seedKey(database, { status: 'stuck' })
    await database.rows(
      `UPDATE pawl.idempotency_keys SET input = '"secret"', state = '{"s":"secret"}', response_body = 'secret', response_headers = '{"x":"secret"}'
        WHERE status = 'finished'`,
    )
    await database.rows(
      `UPDATE pawl.idempotency_keys SET input = '"secret"', intent = '{"kind":"called","phase":"p","result":"secret"}' WHERE status = 'stuck'`,
    )
    const finished = await operator.page({ status: 'finished' })
    expect(finished.keys).toMatchObject([{ status: 'finished', responseStatus: 204, sealed: null }])
    const stuck = await operator.page({ status: 'stuck' })
    expect(stuck.keys).toMatchObject([{ call: { phase: 'p', known: 'returned', late: false } }])
    expect(JSON.stringify([finished, stuck])).not.toContain('secret')
  })

  test.each([
    '',
    'x',
    Buffer.from('["1"]').toString('base64url'),
    Buffer.from('["x","s","k"]').toString('base64url'),
  ])('do not begin at %j', async (after) => {
    await expect(operator.page({ after })).rejects.toMatchObject({
      code: 'PAWL_INVALID_OPTION',
      message: expect.stringContaining('it takes the cursor that the page before came with') as string,
    })
  })
})

const at = (minute: number): string => `2026-01-01T00:${String(minute).padStart(2, '0')}:00Z`

describe('interventions', () => {
  beforeEach(async () => {
    await database.rows(
      `INSERT INTO pawl.interventions (key_id, scope, key, action, actor, reason, detail, created_at)
       SELECT gen_random_uuid(), 's' || n % 2, 'k' || n, CASE n % 3 WHEN 0 THEN 'revoke' ELSE 'unstick' END, 'a' || n % 4, 'why', 'null',
              timestamptz '2026-01-01T00:00:00Z' + n / 2 * interval '1 min'
         FROM generate_series(0, 19) AS n`,
    )
    await database.rows(
      `INSERT INTO pawl.interventions (action, actor, created_at) VALUES ('reap', 'cron', '2026-01-01T00:30:00Z')`,
    )
  })

  test('come latest first, page by page, each once', async () => {
    const keys: (string | null)[] = []
    for (let after: string | null = null; ;) {
      const page = await operator.interventions({ limit: 4, ...(after !== null && { after }) })
      keys.push(...page.interventions.map(({ key }) => key))
      if (page.next === null) break
      after = page.next
    }
    expect(keys).toHaveLength(21)
    expect(new Set(keys).size).toBe(21)
    expect(keys[0]).toBeNull()
    expect(new Set(keys.slice(1, 3))).toEqual(new Set(['k18', 'k19']))
  })

  test('of nothing in particular have no scope', async () => {
    const { interventions } = await operator.interventions({ action: 'reap' })
    expect(interventions).toMatchObject([
      { scope: null, key: null, keyId: null, actor: 'cron', detail: null },
    ])
  })

  test('are filtered by time, action, actor and scope', async () => {
    const window = { from: new Date(at(2)), to: new Date(at(4)) }
    const inWindow = await operator.interventions(window)
    expect(new Set(inWindow.interventions.map(({ key }) => key))).toEqual(new Set(['k4', 'k5', 'k6', 'k7']))
    const filtered = await operator.interventions({ ...window, action: 'unstick', actor: 'a1', scope: 's1' })
    expect(filtered).toMatchObject({ interventions: [{ key: 'k5', scope: 's1', actor: 'a1' }], next: null })
  })

  test.each<[object, string]>([
    [{ limit: 0 }, 'limit is 0'],
    [{ from: 'yesterday' }, 'from is'],
    [{ from: new Date(at(2)), to: new Date(at(1)) }, 'to is'],
    [{ after: Buffer.from('["1","no uuid"]').toString('base64url') }, 'after is'],
    [{ actor: '' }, 'actor is'],
    [{ until: 1 }, "unknown option 'until'"],
  ])('refuse %j', async (filter, message) => {
    await expect(operator.interventions(filter)).rejects.toMatchObject({
      code: 'PAWL_INVALID_OPTION',
      message: expect.stringContaining(message) as string,
    })
  })
})

test('whoever reveals a key is on record before they see it', async () => {
  const keyId = await seedKey(database, { scope: 's', key: 'k' })
  const because = { actor: 'anna', reason: 'Ticket 4711' }
  const report = await operator.reveal({ keyId }, because)
  expect(report).toMatchObject({
    key: { keyId, input: {} },
    interventions: [{ ...because, action: 'reveal', detail: null }],
  })
  expect(await operator.interventions()).toMatchObject({
    interventions: [{ action: 'reveal', scope: 's', key: 'k', keyId }],
  })
  expect(await operator.reveal({ scope: 's', key: 'no such' }, because)).toBeNull()
  // Whoever cannot be put on record sees nothing.
  await database.rows(
    `ALTER TABLE pawl.interventions ADD CONSTRAINT none CHECK (action <> 'reveal') NOT VALID`,
  )
  await expect(operator.reveal({ keyId }, because)).rejects.toThrow('none')
  await database.rows('ALTER TABLE pawl.interventions DROP CONSTRAINT none')
  expect((await operator.interventions()).interventions).toHaveLength(1)
  await expect(operator.reveal({ keyId }, { actor: 'anna', reason: '' })).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
  })
})

test('duplicates are summed by scope, pipeline and minute, most first', async () => {
  const from = new Date('2026-01-01T10:00:00Z')
  const to = new Date('2026-01-01T11:00:00Z')
  await database.rows(
    `INSERT INTO pawl.duplicates (scope, minute, pipeline, replayed, in_flight, mismatched) VALUES
       ('few', '2026-01-01T10:01:00Z', 'p', 1, 0, 0), ('many', '2026-01-01T10:01:00Z', 'p', 5, 2, 0),
       ('many', '2026-01-01T10:01:00Z', 'q', 1, 0, 0), ('many', '2026-01-01T10:03:00Z', 'p', 0, 0, 3),
       ('', '2026-01-01T10:03:00Z', 'p', 2, 0, 0), ('many', '2026-01-01T09:59:00Z', 'p', 100, 0, 0),
       ('few', '2026-01-01T11:00:00Z', 'p', 100, 0, 0)`,
  )
  const all = await operator.duplicates({ from, to })
  expect(all.map(({ scope }) => scope)).toEqual(['many', '', 'few'])
  expect(all[0]).toEqual({
    scope: 'many',
    replayed: 6,
    inFlight: 2,
    mismatched: 3,
    byPipeline: [
      { pipeline: 'p', replayed: 5, inFlight: 2, mismatched: 3 },
      { pipeline: 'q', replayed: 1, inFlight: 0, mismatched: 0 },
    ],
    minutes: [
      { at: new Date('2026-01-01T10:01:00Z'), replayed: 6, inFlight: 2, mismatched: 0 },
      { at: new Date('2026-01-01T10:03:00Z'), replayed: 0, inFlight: 0, mismatched: 3 },
    ],
  })
  expect(await operator.duplicates({ from, to, top: 1 })).toHaveLength(1)
  expect(await operator.duplicates({ from: to, to })).toEqual([])
  await expect(operator.duplicates({ from, to, top: 0 })).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
  })
})
