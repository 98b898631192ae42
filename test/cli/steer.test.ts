import { randomUUID } from 'node:crypto'
import { type AnyPipeline, createBackground, type Engine, respond } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import {
  breakImport,
  engineOn,
  importOrderOn,
  mendImport,
  ORDER,
  placeOrder,
  sendParcel,
} from './filled-database.js'
import { pawlOn } from './pawl.js'

/** Steps that an operator takes with one key, and what becomes of it. */

let database: TestDatabase
let engine: Engine<Database>
beforeEach(async () => {
  database = await TestDatabase.create()
  engine = engineOn(database)
})
afterEach(async () => {
  await engine.close()
  await database.drop()
})

const REASON = ['--reason', 'Ticket 4711']
const REQUEST = { scope: 'shop', key: 'k', input: ORDER }

function complete(by: Engine<Database> = engine) {
  return createBackground({ engine: by }).completer?.runOnce()
}

interface Note {
  readonly action: string
  readonly actor: string
  readonly reason: string
}

/** Who did what, as `pawl show` reports it. */
async function interventions(scope = 'shop', key = 'k'): Promise<Note[]> {
  const { out } = await pawlOn(database, 'show', '--json', scope, key)
  const { interventions: notes } = JSON.parse(out) as { interventions: Note[] }
  return notes.map(({ action, actor, reason }) => ({ action, actor, reason }))
}

test('a poison request becomes stuck at the cap, shows in status, is unstuck by hand after the fix, and is finished by the completer', async () => {
  const importOrder = importOrderOn(database)
  const own = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [importOrder] })
  breakImport(database, 'no such column')
  while ((await own.execute(importOrder, REQUEST)).type !== 'stuck');
  const status = await pawlOn(database, 'status')
  expect(status.exit).toBe(3)
  expect(status.out).toMatch(/^Stuck +1 attempts_exhausted$/m)
  expect(status.out).toMatch(/^import-order +1 +order_read +0 +0 +0 +1 /m)
  await complete(own)
  expect((await pawlOn(database, 'status')).exit).toBe(3)

  const said = await pawlOn(database, 'unstick', 'shop', 'k', '--reason', 'a guess', '--not-executed')
  expect(said).toMatchObject({
    exit: 1,
    out: '',
    err: expect.stringContaining('none of its calls is in doubt'),
  })
  mendImport(database)
  const unstuck = await pawlOn(database, 'unstick', 'shop', 'k', '--reason', 'column added')
  expect(unstuck).toMatchObject({ exit: 0, out: expect.stringMatching(/^Unstuck\./), err: '' })
  await complete(own)
  expect(await own.execute(importOrder, REQUEST)).toMatchObject({
    type: 'replayed',
    response: { status: 201 },
  })
  expect(await pawlOn(database, 'status')).toMatchObject({ exit: 0 })
  expect(await interventions()).toEqual([{ action: 'unstick', actor: 'anna@ops-1', reason: 'column added' }])
  await own.close()
})

describe('a call in doubt', () => {
  beforeEach(async () => {
    expect(await engine.execute(sendParcel, REQUEST)).toMatchObject({
      type: 'stuck',
      reason: 'unknown_outcome',
    })
  })

  test('is not unstuck before somebody says what became of it', async () => {
    const { exit, out, err } = await pawlOn(database, 'unstick', 'shop', 'k', ...REASON)
    expect({ exit, out }).toEqual({ exit: 1, out: '' })
    expect(err).toContain('call of parcel_sent was executed is not known')
    expect(err).toContain('--not-executed or --result')
    expect(await interventions()).toEqual([])
  })

  test('is settled by --result with what the operator found', async () => {
    const result = JSON.stringify({ tracking: 'T-1' })
    expect(await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--result', result)).toMatchObject({
      exit: 0,
    })
    await complete()
    const outcome = await engine.execute(sendParcel, REQUEST)
    expect(outcome).toMatchObject({ type: 'replayed', response: { status: 200 } })
    expect((await pawlOn(database, 'show', 'shop', 'k')).out).toMatch(/^Effects\nTIME.*\n.* T-1 /m)
  })

  test('is made again by --not-executed', async () => {
    expect(await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed')).toMatchObject({
      exit: 0,
    })
    await complete()
    // It is cut off again: what matters is that it was made.
    expect(await engine.execute(sendParcel, REQUEST)).toMatchObject({
      type: 'stuck',
      reason: 'unknown_outcome',
    })
    expect((await engine.inspect('shop', 'k'))?.fence).toBeGreaterThan(1)
  })

  test('is unstuck only if --phase names its phase', async () => {
    const argv = ['unstick', 'shop', 'k', ...REASON, '--not-executed', '--phase'] as const
    const wrong = await pawlOn(database, ...argv, 'paid')
    expect(wrong).toMatchObject({ exit: 1, out: '', err: expect.stringContaining('parcel_sent') })
    expect(await pawlOn(database, ...argv, 'parcel_sent')).toMatchObject({ exit: 0 })
  })

  test('can be answered, with no more left of it than its replay needs', async () => {
    const answer = ['answer', 'shop', 'k', ...REASON, '--status', '410', '--wipe'] as const
    expect(await pawlOn(database, ...answer, 'some')).toMatchObject({ exit: 2 })
    const read = () => database.rows('SELECT input, state, last_error FROM pawl.idempotency_keys')
    const [before] = await read()
    expect(before).not.toMatchObject({ input: null })
    expect(await pawlOn(database, ...answer, 'all')).toMatchObject({ exit: 0 })
    expect(await read()).toEqual([{ input: null, state: {}, last_error: null }])
    expect(await engine.execute(sendParcel, REQUEST)).toMatchObject({ type: 'replayed' })
  })

  test('can be answered: from then on, the client gets what the operator gave', async () => {
    const response = ['--status', '410', '--body', '{"sorry":true}', '--header', 'Location: /help: now']
    expect(
      await pawlOn(database, 'answer', 'shop', 'k', ...REASON, ...response, '--retention', '2h'),
    ).toMatchObject({
      exit: 0,
      out: 'Answered. From now on, retries of its client get 410.\n',
    })
    const outcome = await engine.execute(sendParcel, REQUEST)
    if (outcome.type !== 'replayed') throw new Error(outcome.type)
    expect(outcome.response).toMatchObject({ status: 410, headers: { location: '/help: now' } })
    expect(outcome.response.body.toString()).toBe('{"sorry":true}')
    expect(await interventions()).toEqual([{ action: 'answer', actor: 'anna@ops-1', reason: 'Ticket 4711' }])
    // What the operator gave is what the client gets, so it is not for every terminal.
    for (const form of [[], ['--json']]) {
      expect((await pawlOn(database, 'show', 'shop', 'k', ...form)).out).not.toContain('sorry')
      expect((await pawlOn(database, 'show', 'shop', 'k', '--reveal', ...form)).out).toContain('sorry')
    }
    const rows = await database.rows<{ kept: string }>(
      `SELECT round(extract(epoch FROM expires_at - updated_at) / 3600)::text AS kept FROM pawl.idempotency_keys`,
    )
    expect(rows).toEqual([{ kept: '2' }])
  })

  test('cannot be answered with a response that cannot be stored: that is wrong usage', async () => {
    const end = await pawlOn(database, 'answer', 'shop', 'k', ...REASON, '--status', '429')
    expect(end).toMatchObject({ exit: 2, err: expect.stringContaining('429') })
  })

  test('is printed by --json without what its client sent', async () => {
    const { out } = await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed', '--json')
    expect(JSON.parse(out)).toMatchObject({
      type: 'done',
      key: { status: 'running', input: { redacted: true } },
    })
    expect(out).not.toContain(ORDER.card)
  })
})

test('a key that is not stuck is neither unstuck nor answered', async () => {
  await engine.execute(placeOrder, REQUEST)
  for (const argv of [['unstick'], ['answer', '--status', '410'], ['revoke']]) {
    const [name = '', ...more] = argv
    const end = await pawlOn(database, name, 'shop', 'k', ...REASON, ...more, '--json')
    expect(end, name).toMatchObject({ exit: 1, out: '' })
    expect(JSON.parse(end.err), name).toMatchObject({ error: { code: 'refused' } })
  }
  expect(await interventions()).toEqual([])
})

/** Lines of the timeline that say that the fence has grown. */
const RAISED = /^.* fence raised$/gm

test('the timeline shows where another holder took over', async () => {
  await dieAt(database, { pipelines: [placeOrder] }, 'paid/call#1:after', (doomed) =>
    doomed.execute(placeOrder, REQUEST),
  )
  await complete()
  const { out } = await pawlOn(database, 'show', 'shop', 'k')
  expect(out.match(RAISED)).toEqual([expect.stringMatching(/ paid +2 +fence raised$/)])
})

test('the timeline shows where the answer to a COMMIT was lost, and does not say that anybody took over', async () => {
  const proxy = await PostgresProxy.start(database.url)
  const pool = database.pool({ connectionString: proxy.url })
  const unlucky = createEngine({ pool, schema: database.schema, pipelines: [placeOrder] })
  const struck = proxy.armCommit('commit_lost', 1)
  expect(await unlucky.execute(placeOrder, REQUEST)).toMatchObject({ type: 'completed' })
  await struck
  await unlucky.close()
  await proxy.close()
  const { out } = await pawlOn(database, 'show', 'shop', 'k')
  expect(out.match(RAISED)).toEqual([expect.stringMatching(/ paid +2 +fence raised$/)])
})

test('the first grant of a key that was enqueued raises no fence of anybody', async () => {
  await engine.enqueue(placeOrder, REQUEST)
  await complete()
  const { out } = await pawlOn(database, 'show', 'shop', 'k')
  expect(out).toMatch(/ finished +2$/m)
  expect(out).not.toMatch(RAISED)
})

test('revoke takes the key from its holder, and another engine resumes it at once', async () => {
  const first = gate()
  const reached = gate()
  let calls = 0
  const slow = pipeline<null>({ name: 'slow', version: 1 })
    .foreign('called', {
      call: async () => {
        calls++
        if (calls > 1) return null
        reached.open()
        await first.opened
        return null
      },
    })
    .finish(() => respond(204))
  const pipelines: AnyPipeline<Database>[] = [slow]
  const holder = createEngine({ pool: database.pool(), schema: database.schema, pipelines })
  const other = createEngine({ pool: database.pool(), schema: database.schema, pipelines })
  const request = { scope: 'shop', key: 'held', input: null }
  const running = holder.execute(slow, request)
  await reached.opened
  expect(await complete(other)).toMatchObject({ found: 0 })
  expect(await pawlOn(database, 'revoke', 'shop', 'held', ...REASON)).toMatchObject({
    exit: 0,
    out: expect.stringMatching(/^Revoked\./),
  })
  await complete(other)
  expect(await other.execute(slow, request)).toMatchObject({ type: 'replayed', response: { status: 204 } })
  first.open()
  await running
  expect(await interventions('shop', 'held')).toEqual([
    { action: 'revoke', actor: 'anna@ops-1', reason: 'Ticket 4711' },
  ])
  await Promise.all([holder.close(), other.close()])
})

describe('by the id of the key', () => {
  const CALLS: [name: string, more: string[], key: object][] = [
    ['unstick', ['--not-executed'], { status: 'running' }],
    ['answer', ['--status', '410'], { status: 'finished' }],
  ]
  test.each(CALLS)('%s steers that key and no other', async (name, more, key) => {
    await engine.execute(sendParcel, REQUEST)
    await engine.execute(sendParcel, { ...REQUEST, key: 'other' })
    const id = (await engine.inspect('shop', 'k'))?.keyId ?? ''
    const { exit, out } = await pawlOn(database, name, '--id', id, ...REASON, ...more, '--json')
    expect(exit).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ type: 'done', key: { keyId: id, ...key } })
    expect(await interventions()).toMatchObject([{ action: name, reason: 'Ticket 4711' }])
    expect(await engine.inspect('shop', 'other')).toMatchObject({ status: 'stuck' })
  })

  test('revoke takes the lease', async () => {
    await engine.enqueue(placeOrder, REQUEST)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour'`,
    )
    const id = (await engine.inspect('shop', 'k'))?.keyId ?? ''
    expect(await pawlOn(database, 'revoke', '--id', id, ...REASON)).toMatchObject({ exit: 0 })
    expect(await engine.inspect('shop', 'k')).toMatchObject({ lease: null })
    expect(await interventions()).toMatchObject([{ action: 'revoke' }])
  })

  test('an id that no key has is not found', async () => {
    const id = randomUUID()
    for (const [name, ...more] of [['unstick'], ['revoke'], ['answer', '--status', '410']]) {
      const end = await pawlOn(database, name ?? '', '--id', id, ...REASON, ...more, '--json')
      expect(end, name).toMatchObject({ exit: 1, out: '' })
      expect(JSON.parse(end.err), name).toMatchObject({
        error: { code: 'not_found', message: expect.stringContaining(id) as string },
      })
    }
  })
})

test('the actor is that of --actor, else that of the environment', async () => {
  await engine.execute(sendParcel, REQUEST)
  await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed', '--actor', 'bob')
  await complete()
  await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed')
  expect((await interventions()).map(({ actor }) => actor).toSorted()).toEqual(['anna@ops-1', 'bob'])
})
