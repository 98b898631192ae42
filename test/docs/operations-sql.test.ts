import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Engine, type Outcome, type Pipeline, respond } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const PAGE = new URL('../../docs/operations-reference.md', import.meta.url)

type Row = Record<string, unknown>
type Ride = Pipeline<Database, RideInput>

let database: TestDatabase
let statements: Map<string, string>
let engine: Engine<Database>
/** How often the provider was called, and what it does. */
let calls: number
let call: () => { id: string }

beforeEach(async () => {
  statements = await readStatements()
  database = await TestDatabase.create()
  await createRideTables(database)
  calls = 0
  call = () => {
    throw new Error('no answer')
  }
})
afterEach(async () => {
  await engine.close()
  await database.drop()
})

/** The page's SQL blocks, by the comment in their first line. */
async function readStatements(): Promise<Map<string, string>> {
  const page = await readFile(PAGE, 'utf8')
  const blocks = [...page.matchAll(/^```sql\n-- (.*?)\n(.*?)^```$/gms)]
  return new Map(blocks.map(([, name = '', sql = '']) => [name, sql]))
}

/** Runs a block of the page as psql would: variables become literals. */
async function run(name: string, variables: Record<string, string> = {}): Promise<Row[]> {
  const sql = statements.get(name)
  if (sql === undefined) throw new Error(`the page has no SQL block '${name}'`)
  return database.rows(
    sql.replaceAll(/:'(\w+)'/g, (_, variable: string) => {
      const value = variables[variable]
      if (value === undefined) throw new Error(`block '${name}' uses :'${variable}'`)
      return `'${value.replaceAll("'", "''")}'`
    }),
  )
}

function fax(): Ride {
  return pipeline<RideInput>({ name: 'fax', version: 1 })
    .local('accepted', () => ({ accepted: true }))
    .foreign('sent', {
      guarantee: 'at_most_once',
      call: () => {
        calls += 1
        return call()
      },
      settle: ({ result }) => ({ faxId: result.id }),
      reference: (result) => result.id,
    })
    .finish(async ({ state, stage }) => {
      await stage('file_copy', { fax: state.faxId })
      return respond(201, { fax: state.faxId })
    })
}

function charge(maxAttempts: number): Ride {
  return pipeline<RideInput>({ name: 'charge', version: 1, maxAttempts })
    .foreign('charged', {
      call: () => {
        calls += 1
        return call()
      },
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(201, { charge: state.chargeId }))
}

async function start(ride: Ride): Promise<Outcome> {
  engine = createEngine({ pool: database.pool(), pipelines: [ride], schema: database.schema })
  return engine.execute(ride, { scope: 'rider', key: randomUUID(), input: { amount: 7 } })
}

async function stuck(ride: Ride): Promise<string> {
  const outcome = await start(ride)
  if (outcome.type !== 'stuck') throw new Error(`it is ${outcome.type}`)
  return outcome.keyId
}

const reason = 'looked at the provider'

const answerOf = (outcome: { readonly type: string; readonly response?: unknown }): unknown => {
  const { body } = (outcome.response ?? { body: Buffer.from('null') }) as { body: Buffer }
  return { type: outcome.type, body: JSON.parse(body.toString()) as unknown }
}

test('every SQL block of the page has a name and is run here', () => {
  expect([...statements.keys()].toSorted()).toEqual(
    [
      'keys',
      'one key',
      'effects',
      'unstick: cause removed',
      'unstick: it did not happen',
      'unstick: it did happen',
      'count stored bytes again',
    ].toSorted(),
  )
  engine = createEngine({ pool: database.pool(), pipelines: [fax()], schema: database.schema })
})

test('what is counted of stored bytes is put right, whatever was deleted by hand', async () => {
  const ride = charge(1)
  const limits = { storedBytes: 1_000_000 }
  engine = createEngine({ pool: database.pool(), pipelines: [ride], schema: database.schema, limits })
  call = () => ({ id: 'ch_1' })
  for (const scope of ['one', 'two', 'three'])
    await engine.execute(ride, { scope, key: 'k', input: { amount: 7 } })
  expect(await run('count stored bytes again')).toEqual([])
  await database.rows(`DELETE FROM pawl.idempotency_keys WHERE scope = 'one'`)
  await database.rows(`DELETE FROM pawl.scope_usage WHERE scope = 'two'`)
  expect(new Set((await run('count stored bytes again')).map(({ scope }) => scope))).toEqual(
    new Set(['one', 'two']),
  )
  const counted = await database.rows(
    `SELECT scope, sum(bytes)::int > 1000 AS has FROM pawl.scope_usage WHERE kind = 'stored_bytes' GROUP BY 1 ORDER BY 1`,
  )
  expect(counted).toEqual([
    { scope: 'one', has: false },
    { scope: 'three', has: true },
    { scope: 'two', has: true },
  ])
  expect(await run('count stored bytes again')).toEqual([])
})

test('stuck keys are listed and shown, and the decision is recorded', async () => {
  const keyId = await stuck(fax())
  expect(await run('keys')).toMatchObject([
    {
      id: keyId,
      condition: 'stuck',
      stuck_reason: 'unknown_outcome',
      point: 'accepted',
      call_phase: 'sent',
      call_known: 'may have been made',
    },
  ])
  const [key] = await run('one key', { key_id: keyId })
  expect(key).toMatchObject({ status: 'stuck', intent: { kind: 'calling', phase: 'sent' } })
  await run('unstick: it did not happen', { key_id: keyId, reason: 'asked the provider' })
  expect(await database.rows('SELECT key_id, action, reason FROM pawl.interventions')).toEqual([
    { key_id: keyId, action: 'unstick', reason: 'asked the provider' },
  ])
})

describe('a stuck key runs again once it is unstuck', () => {
  test('it did not happen: it calls again', async () => {
    const keyId = await stuck(fax())
    call = () => ({ id: 'second' })
    expect(await run('unstick: it did not happen', { key_id: keyId, reason })).toHaveLength(1)
    expect(answerOf(await engine.resume(keyId))).toEqual({ type: 'completed', body: { fax: 'second' } })
    expect(calls).toBe(2)
    expect(await run('effects', { key_id: keyId })).toMatchObject([{ phase: 'sent', reference: 'second' }])
  })

  test('it did happen: it settles the given result, and does not call', async () => {
    const keyId = await stuck(fax())
    const given = { key_id: keyId, result: '{"id": "found by a person"}', reason }
    expect(await run('unstick: it did happen', given)).toHaveLength(1)
    expect(answerOf(await engine.resume(keyId))).toEqual({
      type: 'completed',
      body: { fax: 'found by a person' },
    })
    expect(calls).toBe(1)
  })

  test('cause removed: it is tried again', async () => {
    const keyId = await stuck(charge(1))
    expect(await run('keys')).toMatchObject([{ id: keyId, stuck_reason: 'attempts_exhausted' }])
    call = () => ({ id: 'ch' })
    expect(await run('unstick: cause removed', { key_id: keyId, reason })).toHaveLength(1)
    expect(answerOf(await engine.resume(keyId))).toEqual({ type: 'completed', body: { charge: 'ch' } })
  })

  test('cause removed, which says nothing about a call: at_most_once stays stuck', async () => {
    const keyId = await stuck(fax())
    await run('unstick: cause removed', { key_id: keyId, reason })
    expect(await engine.resume(keyId)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    expect(calls).toBe(1)
  })

  describe('after the window', () => {
    let keyId: string
    beforeEach(async () => {
      const outcome = await start(charge(10))
      if (outcome.type !== 'retry_later') throw new Error(`it is ${outcome.type}`)
      keyId = outcome.keyId
      // Past the window of 23 hours, and not yet too old.
      await database.rows(
        `UPDATE pawl.idempotency_keys SET created_at = clock_timestamp() - interval '23.5 hours'`,
      )
      expect(await engine.resume(keyId)).toMatchObject({ type: 'stuck', reason: 'window_passed' })
      call = () => ({ id: 'ch' })
    })

    test('it did happen: it settles', async () => {
      await run('unstick: it did happen', {
        key_id: keyId,
        result: '{"id": "old"}',
        reason,
      })
      expect(answerOf(await engine.resume(keyId))).toEqual({ type: 'completed', body: { charge: 'old' } })
      expect(calls).toBe(1)
    })

    test('it did not happen: it calls again, and its window starts again', async () => {
      await run('unstick: it did not happen', { key_id: keyId, reason })
      expect(answerOf(await engine.resume(keyId))).toEqual({ type: 'completed', body: { charge: 'ch' } })
      expect(calls).toBe(2)
    })

    test('cause removed, which says nothing about the call: it becomes stuck again', async () => {
      await run('unstick: cause removed', { key_id: keyId, reason })
      expect(await engine.resume(keyId)).toMatchObject({ type: 'stuck', reason: 'window_passed' })
      expect(calls).toBe(1)
    })
  })

  test('however old it is, since its age counts from then', async () => {
    const keyId = await stuck(charge(1))
    call = () => ({ id: 'ch' })
    await database.rows(`UPDATE pawl.idempotency_keys SET created_at = clock_timestamp() - interval '25 hours',
                            trail = jsonb_build_array(jsonb_build_object('p', 'started', 't',
                              floor(extract(epoch FROM clock_timestamp()) * 1000), 'f', 1))`)
    await run('unstick: cause removed', { key_id: keyId, reason })
    expect(await engine.resume(keyId)).toMatchObject({ type: 'completed' })
  })

  test('but only if it is stuck', async () => {
    const outcome = await start(charge(10))
    if (outcome.type !== 'retry_later') throw new Error(`it is ${outcome.type}`)
    for (const name of ['cause removed', 'it did not happen', 'it did happen']) {
      const given = { key_id: outcome.keyId, result: 'null', reason }
      expect(await run(`unstick: ${name}`, given)).toEqual([])
    }
  })
})

const condition = async () => (await run('keys')).map((row) => row['condition'])

test('the view shows who has to act', async () => {
  const outcome = await start(charge(10))
  if (outcome.type !== 'retry_later') throw new Error(`it is ${outcome.type}`)
  await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp() + interval '1 hour'`)
  expect(await condition()).toEqual(['backing off'])
  await database.rows(`UPDATE pawl.idempotency_keys SET run_after = clock_timestamp()`)
  expect(await condition()).toEqual(['unattended'])
  await database.rows(`UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour'`)
  expect(await condition()).toEqual(['held'])
  await database.rows(`UPDATE pawl.idempotency_keys SET lease_until = NULL`)
  call = () => ({ id: 'ch' })
  expect(await engine.resume(outcome.keyId)).toMatchObject({ type: 'completed' })
  expect(await condition()).toEqual([])
})
