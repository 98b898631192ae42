import { randomUUID } from 'node:crypto'
import { createBackground, createOperator, respond, type Wipe } from '@pawl/core'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { columnsWith } from './dump.js'
import { createEngine, pipeline, protect, SECRET, secretRide, type Way } from './secret-ride.js'

const databases: TestDatabase[] = []
afterAll(() => Promise.all(databases.map((database) => database.drop())))

async function trial(wipe: Wipe, more: { readonly protect?: typeof protect; commits?: 'fewest' } = {}) {
  const database = await TestDatabase.create()
  databases.push(database)
  const { commits = 'each', ...given } = more
  const pool = database.pool()
  const engine = createEngine({
    pool,
    schema: database.schema,
    pipelines: [secretRide],
    defaults: { wipe, commits },
    ...given,
  })
  onTestFinished(() => engine.close())
  const operator = createOperator({ pool, schema: database.schema, ...given })
  const send = (key: string, way: Way = 'finishes') =>
    engine.execute(secretRide, { scope: 's', key, input: { way, secret: SECRET } })
  const keyColumns = async () =>
    (await columnsWith(database, SECRET)).filter((column) => column.startsWith('idempotency_keys'))
  return { database, engine, operator, send, keyColumns }
}

const ANSWERED = ['idempotency_keys.response_body', 'idempotency_keys.response_headers']

describe.each([
  ['nothing', ['idempotency_keys.input', ...ANSWERED, 'idempotency_keys.state']],
  ['input', [...ANSWERED, 'idempotency_keys.state']],
  ['all', ANSWERED],
] as const)('wipe: %s', (wipe, left) => {
  test.each(['each', 'fewest'] as const)(
    'leaves what it says once the key is finished (commits: %s)',
    async (commits) => {
      const { database, engine, operator, send, keyColumns } = await trial(
        wipe,
        commits === 'fewest' ? { commits } : {},
      )
      const key = randomUUID()
      const first = await send(key)
      expect(await keyColumns()).toEqual(left)

      expect(await send(key)).toEqual({ ...first, type: 'replayed' })
      expect(
        await engine.execute(secretRide, { scope: 's', key, input: { way: 'fails', secret: 1 } }),
      ).toMatchObject({
        type: 'mismatch',
      })
      const report = await operator.show({ scope: 's', key })
      expect(report?.key.trail.map(({ point }) => point)).toEqual(['noted', 'called', 'finished'])
      expect(report?.key.input === null).toBe(wipe !== 'nothing')
      expect(report?.effects).toHaveLength(1)
      await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 s'`)
      const { reaper } = createBackground({ engine, completer: false })
      expect(await reaper?.runOnce()).toMatchObject({ deleted: 1 })
    },
  )

  test('leaves nothing that it says to wipe when a person answers', async () => {
    const { operator, send, keyColumns } = await trial(wipe)
    const key = randomUUID()
    expect(await send(key, 'unknown')).toMatchObject({ type: 'stuck' })
    const response = { status: 200, body: { done: true }, wipe }
    await operator.answer({ scope: 's', key }, { actor: 'a', reason: 'r' }, response)
    const kept = ['input', 'last_error', 'state'].filter((column) =>
      wipe === 'nothing' ? true : wipe === 'input' ? column !== 'input' : false,
    )
    expect(await keyColumns()).toEqual(kept.map((column) => `idempotency_keys.${column}`))
    expect(await send(key, 'unknown')).toMatchObject({ type: 'replayed', response: { status: 200 } })
  })
})

test('what is needed is kept until the key is finished', async () => {
  const { send, keyColumns } = await trial('all')
  const key = randomUUID()
  expect(await send(key, 'settle_fails')).toMatchObject({ type: 'retry_later' })
  expect(await keyColumns()).toEqual([
    'idempotency_keys.input',
    'idempotency_keys.intent',
    'idempotency_keys.last_error',
    'idempotency_keys.state',
  ])
})

test.each([
  ['nothing', { kind: 'not_made' }],
  ['all', null],
] as const)(
  'wipe: %s, of a key that ended before a call of which a person said that it was not made',
  async (wipe, intent) => {
    const database = await TestDatabase.create()
    databases.push(database)
    const ends = { early: false }
    const target = pipeline<null>({ name: 'ends-early', version: 1, wipe })
      .local('noted', () => {
        if (ends.early) return respond(409)
        throw new Error('not now')
      })
      .foreign('called', { call: () => null })
      .finish(() => respond(201))
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [target] })
    onTestFinished(() => engine.close())
    const request = { scope: 's', key: randomUUID(), input: null }
    await engine.execute(target, request)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET run_after = NULL, intent = '{"kind":"not_made","phase":"called","atMs":0}'`,
    )
    ends.early = true
    expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
    expect(await database.rows('SELECT intent FROM pawl.idempotency_keys')).toMatchObject([{ intent }])
  },
)

test('protected keys are wiped likewise', async () => {
  const { database, send } = await trial('all', { protect })
  const key = randomUUID()
  await send(key)
  expect(await database.rows('SELECT input, state, intent FROM pawl.idempotency_keys')).toEqual([
    { input: null, state: {}, intent: null },
  ])
  expect(await send(key)).toMatchObject({ type: 'replayed' })
})
