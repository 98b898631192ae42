import { createHmac, randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import {
  createBackground,
  deliverEach,
  type Engine,
  type PawlChannel,
  pawlChannels,
  type Pipeline,
  respond,
  subscribe,
} from '@pawl/core'
import { sql } from 'kysely'
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { heard as hear } from '../support/heard.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import {
  createEngine,
  createRideOf,
  createRideTables,
  type Database,
  pipeline,
  type RideInput,
} from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

type Ride = Pipeline<Database, RideInput>

let database: TestDatabase
let provider: Provider
let heard: { readonly channel: PawlChannel; readonly message: object }[]
let scope: string
let key: string

beforeEach(async () => {
  database = await TestDatabase.createPlain()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  scope = `scope-${randomUUID()}`
  key = `key-${randomUUID()}`
  heard = []
  for (const channel of pawlChannels) {
    onTestFinished(subscribe(channel, (message) => void heard.push({ channel, message })))
  }
})
afterEach(() => database.drop())

function optionsFor(...pipelines: Ride[]) {
  return { pool: database.pool(), pipelines, schema: database.schema, hashSecret: HASH_SECRET }
}

async function execute(engine: Engine<Database>, ride: Ride, amount = 1) {
  return engine.execute(ride, { scope, key, input: { amount } })
}

/** Opens an engine, runs the request once, and closes the engine. */
async function runOnce(ride: Ride, options = optionsFor(ride)) {
  const engine = createEngine(options)
  const outcome = await execute(engine, ride)
  await engine.close()
  return outcome
}

const HASH_SECRET = 'a secret that all processes of this test share'

const hashOf = (...parts: string[]) =>
  createHmac('sha256', HASH_SECRET).update(JSON.stringify(parts)).digest('hex').slice(0, 16)
const ofKey = () => ({
  keyHash: hashOf(scope, key),
  scopeHash: hashOf(scope),
  pipeline: expect.any(String) as string,
  version: 1,
})
const ofGrant = (fence: number, recoveryPoint: string) => ({
  ...ofKey(),
  keyId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
  fence,
  recoveryPoint,
})

const conflictsOnce = () => {
  let tries = 0
  return pipeline<RideInput>({ name: 'conflicts', version: 1 })
    .local('done', async ({ tx }) => {
      if (tries++ === 0) await sql`DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$`.execute(tx)
    })
    .finish(() => respond(200))
}
const failsAtMostOnce = () =>
  pipeline<RideInput>({ name: 'fails', version: 1 })
    .foreign('sent', { call: () => Promise.reject(new Error('who knows')), guarantee: 'at_most_once' })
    .finish(() => respond(200))

/** What leads to each message, and what it says. The last of its channel counts. */
const situations: { [Name in PawlChannel]: () => Promise<object> } = {
  'pawl:reserved': async () => {
    await runOnce(createRideOf(provider))
    return ofGrant(1, 'started')
  },
  'pawl:phase_started': async () => {
    await runOnce(createRideOf(provider))
    return { ...ofGrant(1, 'charge_created'), phase: 'finished' }
  },
  'pawl:phase_committed': async () => {
    await runOnce(createRideOf(provider))
    return { ...ofGrant(1, 'charge_created'), phase: 'charge_created', skipped: false }
  },
  'pawl:finished': async () => {
    await runOnce(createRideOf(provider))
    return { ...ofGrant(1, 'finished'), status: 201 }
  },
  'pawl:replayed': async () => {
    const ride = createRideOf(provider)
    await runOnce(ride)
    await runOnce(ride)
    return { ...ofKey(), keyId: expect.any(String), from: 'primary' }
  },
  'pawl:in_flight': async () => {
    const ride = createRideOf(provider)
    await provider.willMeet('hold_then_execute')
    const engine = createEngine(optionsFor(ride))
    const running = execute(engine, ride)
    await provider.arrived()
    expect(await execute(engine, ride)).toMatchObject({ type: 'in_flight' })
    await provider.letGo()
    await running
    await engine.close()
    return { ...ofKey(), retryAfterMs: expect.any(Number) }
  },
  'pawl:mismatch': async () => {
    const ride = createRideOf(provider)
    await runOnce(ride)
    const engine = createEngine(optionsFor(ride))
    await execute(engine, ride, 2)
    await engine.close()
    return { ...ofKey(), differs: 'request' }
  },
  'pawl:expired': async () => {
    const ride = createRideOf(provider)
    await runOnce(ride)
    await database.rows('DELETE FROM pawl.idempotency_keys')
    await runOnce(ride)
    return { ...ofKey(), keyId: expect.any(String), settledAt: expect.any(Date) }
  },
  'pawl:limited': async () => {
    const ride = createRideOf(provider)
    const limits = { newKeys: { max: 1, perMs: 60_000 } }
    const engine = createEngine({ ...optionsFor(ride), limits })
    await engine.execute(ride, { scope, key: 'another', input: { amount: 1 } })
    await execute(engine, ride)
    await engine.close()
    return { ...ofKey(), limit: 'new_keys', retryAfterMs: expect.any(Number) }
  },
  'pawl:taken_over': async () => {
    const ride = createRideOf(provider)
    await provider.willMeet('refuse_500')
    await runOnce(ride)
    await runOnce(ride)
    return { ...ofGrant(2, 'ride_created'), attempts: 1 }
  },
  'pawl:phase_retried': async () => {
    await runOnce(conflictsOnce())
    return { ...ofGrant(1, 'started'), phase: 'done', attempt: 1, error: { code: '40001' } }
  },
  'pawl:phase_failed': async () => {
    await provider.willMeet('refuse_500')
    await runOnce(createRideOf(provider))
    const error = { status: 500 }
    return { ...ofGrant(1, 'ride_created'), phase: 'charge_created', reason: 'asked_by_phase', error }
  },
  'pawl:retried_for_long': async () => {
    const ride = createRideOf(provider)
    await provider.willMeet('refuse_500', 'refuse_500')
    await runOnce(ride)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET created_at = clock_timestamp() - interval '11 minutes' WHERE scope = $1`,
      [scope],
    )
    await runOnce(ride)
    const times = { sinceMs: expect.any(Number) as number, stuckInMs: expect.any(Number) as number }
    const why = { reason: 'asked_by_phase', error: { status: 500 } }
    return { ...ofGrant(2, 'ride_created'), phase: 'charge_created', ...why, ...times }
  },
  'pawl:outcome_unknown': async () => {
    const target = pipeline<RideInput>({ name: 'mails', version: 1 })
      .foreign('mailed', {
        guarantee: 'at_most_once',
        call: () => Promise.reject(new Error('who knows')),
        whenUnknown: () => ({}),
      })
      .finish(() => respond(200))
    expect(await runOnce(target)).toMatchObject({ type: 'completed' })
    return { ...ofGrant(1, 'mailed'), phase: 'mailed', error: { message: 'who knows' } }
  },
  'pawl:commit_settled': async () => {
    const ride = createRideOf(provider)
    const proxy = await PostgresProxy.start(database.url)
    const struck = proxy.armCommit('answer_lost')
    const pool = database.pool({ connectionString: proxy.url })
    expect(await runOnce(ride, { ...optionsFor(ride), pool })).toMatchObject({ type: 'completed' })
    await struck
    await pool.end()
    await proxy.close()
    return { ...ofGrant(2, 'ride_created'), phase: 'ride_created', committed: true }
  },
  'pawl:fenced_off': async () => {
    const ride = createRideOf(provider)
    const { engine, frozen, wake } = engineThatFreezesAt(
      optionsFor(ride),
      'ride_created/advance_key#1:before',
    )
    const zombie = execute(engine, ride)
    await frozen
    await database.expireLeases()
    expect(await runOnce(ride)).toMatchObject({ type: 'completed' })
    wake()
    expect(await zombie).toMatchObject({ type: 'replayed' })
    await engine.close()
    return { ...ofGrant(1, 'started'), phase: 'ride_created' }
  },
  'pawl:stuck': async () => {
    expect(await runOnce(failsAtMostOnce())).toMatchObject({ type: 'stuck' })
    return { ...ofGrant(1, 'started'), reason: 'unknown_outcome' }
  },
  'pawl:refused': async () => {
    await provider.willMeet('refuse_500')
    await runOnce(createRideOf(provider))
    const newer = pipeline<RideInput>({ name: 'create-ride', version: 2 }).finish(() => respond(200))
    expect(await runOnce(newer)).toMatchObject({ type: 'refused' })
    return { ...ofKey(), keyId: expect.any(String), detail: 'version 1 is not registered here' }
  },
  'pawl:unavailable': async () => {
    const ride = createRideOf(provider)
    const pool = new pg.Pool({ host: '127.0.0.1', port: 1 })
    expect(await runOnce(ride, { ...optionsFor(ride), pool })).toMatchObject({ type: 'unavailable' })
    return { error: { code: 'PAWL_NO_CONNECTION' } }
  },
  'pawl:breaker': async () => {
    const ride = createRideOf(provider)
    const pool = new pg.Pool({ host: '127.0.0.1', port: 1 })
    const engine = createEngine({ ...optionsFor(ride), pool, breaker: { failures: 1 } })
    await execute(engine, ride)
    await engine.close()
    const error = { code: 'PAWL_NO_CONNECTION' }
    return { state: 'opened', failures: 1, refused: 0, openMs: expect.any(Number), error }
  },
  'pawl:enqueued': async () => {
    const ride = createRideOf(provider)
    const engine = createEngine(optionsFor(ride))
    await engine.enqueue(ride, { scope, key, input: { amount: 1 } })
    await engine.close()
    return { ...ofKey(), keyId: expect.any(String) }
  },
  'pawl:round': async () => {
    const engine = createEngine(optionsFor(createRideOf(provider)))
    const background = createBackground({ engine, reaper: false })
    const ended = hear('pawl:round')
    background.start()
    await ended
    await background.stop()
    await engine.close()
    return { service: 'completer', counts: { found: 0, completed: 0 } }
  },
  'pawl:round_failed': async () => {
    const pool = new pg.Pool({ host: '127.0.0.1', port: 1 })
    const engine = createEngine({ ...optionsFor(createRideOf(provider)), pool })
    const background = createBackground({ engine, reaper: false })
    const failed = hear('pawl:round_failed')
    background.start()
    await failed
    await background.stop()
    await engine.close()
    return { service: 'completer', failures: 1, error: { code: 'PAWL_NO_CONNECTION' } }
  },
  'pawl:job_failed': async () => {
    const ride = createRideOf(provider)
    await runOnce(ride)
    const engine = createEngine(optionsFor(ride))
    const sink = { deliver: async () => [] }
    const [relay] = createBackground({ engine, relay: { sink } }).relays
    expect(await relay?.runOnce()).toMatchObject({ failed: 1 })
    await engine.close()
    return { jobId: expect.any(String), attempts: 1, error: { code: 'PAWL_INVALID_RESULT' } }
  },
  'pawl:job_dead': async () => {
    const ride = createRideOf(provider)
    await runOnce(ride)
    const engine = createEngine(optionsFor(ride))
    const sink = deliverEach(() => Promise.reject(new Error('no such queue')))
    const [relay] = createBackground({ engine, relay: { sink, maxAttempts: 1 } }).relays
    expect(await relay?.runOnce()).toMatchObject({ dead: 1 })
    await engine.close()
    return { jobId: expect.any(String), attempts: 1, lastError: 'Error: no such queue' }
  },
  'pawl:reap_held': async () => {
    const ride = createRideOf(provider)
    await runOnce(ride)
    await database.rows(
      `CREATE TABLE receipts (key_id uuid CONSTRAINT of_key REFERENCES pawl.idempotency_keys)`,
    )
    await database.rows(`INSERT INTO receipts SELECT id FROM pawl.idempotency_keys WHERE scope = $1`, [scope])
    await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() WHERE scope = $1`, [
      scope,
    ])
    const engine = createEngine(optionsFor(ride))
    expect(await createBackground({ engine }).reaper?.runOnce()).toMatchObject({ held: 1 })
    await database.rows('DROP TABLE receipts')
    await engine.close()
    return { keyIds: [expect.any(String)], constraint: 'of_key' }
  },
  'pawl:warning': async () => {
    const options = optionsFor(createRideOf(provider))
    const engine = createEngine(options)
    options.pool.emit('error', new Error('reset by peer'), new pg.Client())
    await engine.close()
    return { message: 'an idle connection broke', error: { message: 'reset by peer' } }
  },
}

test.each(Object.entries(situations))(
  '%s says what happened, and names no key or scope',
  async (channel, cause) => {
    const expected = await cause()
    const messages = heard.filter((entry) => entry.channel === channel).map(({ message }) => message)
    expect(messages.at(-1)).toMatchObject(expected)
    const said = `${JSON.stringify(heard)}${inspect(heard, { depth: null, showHidden: true })}`
    expect(said).not.toContain(scope)
    expect(said).not.toContain(key)
  },
)

test('a request announces each of its steps once and in order', async () => {
  const ride = createRideOf(provider)
  await runOnce(ride)
  const steps = heard.map(({ channel, message }) =>
    'phase' in message ? `${channel} ${String(message.phase)}` : channel,
  )
  expect(steps).toEqual([
    'pawl:reserved',
    'pawl:phase_started ride_created',
    'pawl:phase_committed ride_created',
    'pawl:phase_started charge_created',
    'pawl:phase_committed charge_created',
    'pawl:phase_started finished',
    'pawl:finished',
  ])
})

test('a phase that was skipped is announced as skipped', async () => {
  const skips = pipeline<RideInput>({ name: 'skips', version: 1 })
    .local('never', () => {}, { when: () => false })
    .finish(() => respond(200))
  await runOnce(skips)
  expect(heard.find(({ channel }) => channel === 'pawl:phase_committed')?.message).toMatchObject({
    phase: 'never',
    skipped: true,
  })
})

test('a key of another pipeline is announced as a mismatch of the pipeline', async () => {
  const ride = createRideOf(provider)
  const other = pipeline<RideInput>({ name: 'other', version: 1 }).finish(() => respond(200))
  await runOnce(ride)
  await runOnce(other)
  expect(heard.at(-1)).toMatchObject({
    channel: 'pawl:mismatch',
    message: { pipeline: 'other', differs: 'pipeline' },
  })
})
