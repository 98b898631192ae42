import { createBackground, type EngineOptions, pawlChannels, respond, subscribe } from '@pawl/core'
import { afterEach, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

const REQUEST = { scope: 's', key: 'k', input: { amount: 1 } }

function engineOf(options: Partial<EngineOptions<Database>> = {}) {
  const ride = createRideOf(provider)
  const engine = createEngine({
    pool: database.pool(),
    pipelines: [ride, plain],
    schema: database.schema,
    ...options,
  })
  onTestFinished(() => engine.close())
  return { ride, engine }
}

/** It has no effects. */
const plain = pipeline<{ amount: number }>({ name: 'plain', version: 1 })
  .local('written', async ({ tx }) => {
    await tx.insertInto('audit').values({ what: 'plain' }).execute()
  })
  .finish(() => respond(201))

/** The retention is over, and the reaper has been there. */
async function expire(engine: ReturnType<typeof engineOf>['engine']): Promise<void> {
  await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 ms'`)
  const { reaper } = createBackground({ engine, completer: false })
  expect(await reaper?.runOnce()).toMatchObject({ deleted: 1 })
}

const keys = () => database.rows('SELECT key FROM pawl.idempotency_keys')
const chargesMade = async () => (await provider.ledger()).length

// Shows I19.
test.each(['', ' without pipelining', ' with prepared statements'])(
  'a retry of a key that was deleted after its charge is not run again%s',
  async (how) => {
    const { ride, engine } = engineOf({
      pipelining: !how.includes('pipelining'),
      preparedStatements: how.includes('prepared'),
    })
    const first = await engine.execute(ride, REQUEST)
    if (first.type !== 'completed') throw new Error(first.type)
    await expire(engine)
    const [effect] = await database.rows<{ created_at: Date }>('SELECT created_at FROM pawl.effects')
    const expired = { type: 'expired', keyId: first.keyId, settledAt: effect?.created_at }
    expect(await engine.execute(ride, REQUEST)).toEqual(expired)
    expect(await engine.enqueue(ride, REQUEST)).toEqual(expired)
    // Whatever else it asks for: the key was used.
    expect(await engine.execute(ride, { ...REQUEST, input: { amount: 2 } })).toEqual(expired)
    expect(await engine.execute(plain, REQUEST)).toEqual(expired)
    expect(await chargesMade()).toBe(1)
    expect(await keys()).toEqual([])
  },
)

test('with afterExpiry run, it is a new request', async () => {
  const { ride, engine } = engineOf({ afterExpiry: 'run' })
  await engine.execute(ride, REQUEST)
  await expire(engine)
  expect(await engine.execute(ride, REQUEST)).toMatchObject({ type: 'completed' })
  expect(await database.rows('SELECT 1 FROM pawl.effects')).toHaveLength(2)
})

test('a key that had no effect runs again', async () => {
  const { engine } = engineOf()
  await engine.execute(plain, REQUEST)
  await expire(engine)
  expect(await engine.execute(plain, REQUEST)).toMatchObject({ type: 'completed' })
})

test.each<[string, Partial<EngineOptions<Database>>]>([
  ['', {}],
  [', with a limit on new keys', { limits: { newKeys: { max: 9, perMs: 1_000 } } }],
  [', with a limit on unfinished keys', { limits: { unfinished: 9 } }],
  [', where expired keys may run again', { afterExpiry: 'run' }],
])(
  'a key whose effects were all undone runs again, and one of which one stands does not%s',
  async (_, more) => {
    const { ride, engine } = engineOf(more)
    await engine.execute(ride, REQUEST)
    await expire(engine)
    await database.rows(
      `INSERT INTO pawl.effects (key_id, fence, version, scope, key, pipeline, phase, effect, provider_key)
     SELECT key_id, fence, version, scope, key, pipeline, 'other', 'other', 'other' FROM pawl.effects`,
    )
    await database.rows(`UPDATE pawl.effects SET undone_at = clock_timestamp() WHERE phase <> 'other'`)
    if (more.afterExpiry === undefined)
      expect(await engine.execute(ride, REQUEST)).toMatchObject({ type: 'expired' })
    await database.rows('UPDATE pawl.effects SET undone_at = clock_timestamp()')
    expect(await engine.execute(ride, REQUEST)).toMatchObject({ type: 'completed' })
    // The provider still remembers the first charge under its key.
    expect(await chargesMade()).toBe(2)
  },
)

// Shows I8, I19.
test('a request that runs again after an undo keeps its provider key on every attempt', async () => {
  const { ride, engine } = engineOf()
  await engine.execute(ride, REQUEST)
  await expire(engine)
  await database.rows('UPDATE pawl.effects SET undone_at = clock_timestamp()')
  await provider.willMeet('executes_then_cuts')
  expect(await engine.execute(ride, REQUEST)).toMatchObject({ type: 'retry_later' })
  await database.rows('UPDATE pawl.idempotency_keys SET run_after = NULL')
  expect(await engine.execute(ride, REQUEST)).toMatchObject({ type: 'completed' })
  expect(await chargesMade()).toBe(2)
})

test('neither another scope nor another key is affected', async () => {
  const { ride, engine } = engineOf()
  await engine.execute(ride, REQUEST)
  await expire(engine)
  for (const other of [{ scope: 'other' }, { key: 'other' }])
    expect(await engine.execute(ride, { ...REQUEST, ...other })).toMatchObject({ type: 'completed' })
})

test('a key that is still there replays, although its effect is on record', async () => {
  const { ride, engine } = engineOf()
  await engine.execute(ride, REQUEST)
  for (let time = 0; time < 3; time++)
    expect(await engine.execute(ride, REQUEST)).toMatchObject({ type: 'replayed' })
})

test('many retries at once are all refused', async () => {
  const { ride, engine } = engineOf()
  await engine.execute(ride, REQUEST)
  await expire(engine)
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => engine.execute(ride, REQUEST)))
  expect(outcomes.map(({ type }) => type)).toEqual(Array.from({ length: 20 }, () => 'expired'))
  expect(await chargesMade()).toBe(1)
})

test('it is announced, and nothing else is', async () => {
  const { ride, engine } = engineOf()
  await engine.execute(ride, REQUEST)
  await expire(engine)
  const heard: string[] = []
  for (const channel of pawlChannels) onTestFinished(subscribe(channel, () => void heard.push(channel)))
  await engine.execute(ride, REQUEST)
  expect(heard).toEqual(['pawl:expired'])
})
