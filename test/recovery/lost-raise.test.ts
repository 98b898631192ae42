import { randomUUID } from 'node:crypto'
import { respond, subscribe } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { createEngine, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

// A COMMIT is lost, the fence is raised to find out what became of it, and that answer is lost too, for longer than a
// lease. The key then has a fence and a holder that the process has never seen, and they are its own all the same.

let database: TestDatabase
let proxy: PostgresProxy

beforeEach(async () => {
  database = await TestDatabase.create()
  proxy = await PostgresProxy.start(database.url)
})
afterEach(async () => {
  await proxy.close()
  await database.drop()
})

/** The process tries to raise the fence for this long, and the tests wait for that. A busy machine needs most of it to connect. */
const LEASE_MS = 2_000
const RAISE_FENCE = 'SET fence = k.fence OPERATOR(pg_catalog.+) 1, holder = $5'
const FIND_KEY = 'AS k WHERE k.scope OPERATOR(pg_catalog.=) $1'

/** A charge that must not be repeated, whose result a person would have to look for if it got lost. */
function chargeOnce(settings: { readonly maxAgeMs?: number } = {}) {
  let calls = 0
  const charge = pipeline<null>({
    name: 'charge-once',
    version: 1,
    leaseMs: LEASE_MS,
    transactionRetries: 0,
    ...settings,
  })
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: () => ({ id: `ch_${++calls}` }),
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(201, state))
  const pool = database.pool({ connectionString: proxy.url, connectionTimeoutMillis: LEASE_MS })
  const engine = createEngine({ pool, pipelines: [charge], schema: database.schema })
  const request = { scope: 's', key: randomUUID(), input: null }
  return { engine, calls: () => calls, execute: () => engine.execute(charge, request) }
}

/** Loses a COMMIT, and the answer to the raise; then nothing passes until the process has given up. */
async function loseCommitAndRaise(fault: 'commit_lost' | 'answer_lost', onGivenUp = () => {}): Promise<void> {
  const stop = subscribe('pawl:warning', ({ message }) => {
    if (!message.startsWith('the outcome of a COMMIT')) return
    stop()
    onGivenUp()
    proxy.flow()
  })
  await proxy.armCommit(fault)
  await proxy.armStatement(RAISE_FENCE, 'answer_lost')
  proxy.stall()
}

/** Until the test ends. */
async function loseEvery(statement: string): Promise<never> {
  for (;;) await proxy.armStatement(statement, 'statement_lost')
}

test('a result whose COMMIT did not land is kept, and settled by the next attempt', async () => {
  const { engine, calls, execute } = chargeOnce()
  const fencedOff = hear('pawl:fenced_off')
  const [outcome] = await Promise.all([execute(), loseCommitAndRaise('commit_lost')])
  expect(outcome).toMatchObject({ type: 'retry_later', recoveryPoint: 'started' })
  expect(fencedOff).toEqual([])
  await database.expireLeases()
  expect(await execute()).toMatchObject({ type: 'completed', response: { status: 201 } })
  expect(calls()).toBe(1)
  await engine.close()
})

test('a key that has become too old meanwhile is marked stuck, with its result', async () => {
  const { engine, calls, execute } = chargeOnce({ maxAgeMs: LEASE_MS })
  const [outcome] = await Promise.all([execute(), loseCommitAndRaise('commit_lost')])
  expect(outcome).toMatchObject({ type: 'stuck', reason: 'too_old' })
  expect(await database.rows('SELECT status, intent FROM pawl.idempotency_keys')).toMatchObject([
    { status: 'stuck', intent: { kind: 'called', phase: 'charged' } },
  ])
  expect(calls()).toBe(1)
  await engine.close()
})

test('a COMMIT that landed is gone on from, and nobody is said to have taken the key over', async () => {
  const { engine, calls, execute } = chargeOnce()
  const fencedOff = hear('pawl:fenced_off')
  const [outcome] = await Promise.all([execute(), loseCommitAndRaise('answer_lost')])
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: false })
  expect(fencedOff).toEqual([])
  await database.expireLeases()
  expect(await execute()).toMatchObject({ type: 'completed', response: { status: 201 } })
  expect(calls()).toBe(1)
  await engine.close()
})

test('where the row cannot be read either, nobody is said to have taken the key over', async () => {
  const noted = pipeline<null>({ name: 'noted', version: 1, leaseMs: LEASE_MS, transactionRetries: 0 })
    .local('noted', () => ({}))
    .finish(() => respond(201))
  const pool = database.pool({ connectionString: proxy.url, connectionTimeoutMillis: LEASE_MS })
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema })
  const fencedOff = hear('pawl:fenced_off')
  const [outcome] = await Promise.all([
    engine.execute(noted, { scope: 's', key: randomUUID(), input: null }),
    loseCommitAndRaise('answer_lost', () => void loseEvery(FIND_KEY)),
  ])
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: false, leaseLeftMs: null })
  expect(fencedOff).toEqual([])
  await engine.close()
})
