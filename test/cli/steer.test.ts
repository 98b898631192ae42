import { randomUUID } from 'node:crypto'
import { type AnyPipeline, createBackground, type Engine, respond } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import {
  breakImport,
  buryJobs,
  engineOn,
  importOrderOn,
  mendImport,
  ORDER,
  placeOrder,
  sendParcel,
} from './filled-database.js'
import { pawlOn } from './pawl.js'

/** Steps that an operator takes, and what becomes of the keys. */

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

/** Who did what, as `pawl show` tells it. */
async function interventions(scope = 'shop', key = 'k'): Promise<Note[]> {
  const { out } = await pawlOn(database, 'show', '--json', scope, key)
  const { interventions: notes } = JSON.parse(out) as { interventions: Note[] }
  return notes.map(({ action, actor, reason }) => ({ action, actor, reason }))
}

test('a poison request: stuck at the cap, seen in status, unstuck by hand after the fix, finished by the completer', async () => {
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
  expect(said).toMatchObject({ exit: 1, out: '', err: expect.stringContaining('no call of it is in doubt') })
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

  test('--result: settled with what the operator found', async () => {
    const result = JSON.stringify({ tracking: 'T-1' })
    expect(await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--result', result)).toMatchObject({
      exit: 0,
    })
    await complete()
    const outcome = await engine.execute(sendParcel, REQUEST)
    expect(outcome).toMatchObject({ type: 'replayed', response: { status: 200 } })
    expect((await pawlOn(database, 'show', 'shop', 'k')).out).toMatch(/^Effects\nTIME.*\n.* T-1 /m)
  })

  test('--not-executed: made again', async () => {
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

  test('--phase has to be that of the call', async () => {
    const argv = ['unstick', 'shop', 'k', ...REASON, '--not-executed', '--phase'] as const
    const wrong = await pawlOn(database, ...argv, 'paid')
    expect(wrong).toMatchObject({ exit: 1, out: '', err: expect.stringContaining('parcel_sent') })
    expect(await pawlOn(database, ...argv, 'parcel_sent')).toMatchObject({ exit: 0 })
  })

  test('answered: the client gets what the operator gives, from then on', async () => {
    const response = ['--status', '410', '--body', '{"sorry":true}', '--header', 'Location: /help: now']
    expect(
      await pawlOn(database, 'answer', 'shop', 'k', ...REASON, ...response, '--retention', '2h'),
    ).toMatchObject({
      exit: 0,
      out: 'Answered. Retries of its client get 410 from now on.\n',
    })
    const outcome = await engine.execute(sendParcel, REQUEST)
    if (outcome.type !== 'replayed') throw new Error(outcome.type)
    expect(outcome.response).toMatchObject({ status: 410, headers: { location: '/help: now' } })
    expect(outcome.response.body.toString()).toBe('{"sorry":true}')
    expect(await interventions()).toEqual([{ action: 'answer', actor: 'anna@ops-1', reason: 'Ticket 4711' }])
    // What the operator gave is what the client gets: not for every terminal.
    for (const form of [[], ['--json']]) {
      expect((await pawlOn(database, 'show', 'shop', 'k', ...form)).out).not.toContain('sorry')
      expect((await pawlOn(database, 'show', 'shop', 'k', '--reveal', ...form)).out).toContain('sorry')
    }
    const rows = await database.rows<{ kept: string }>(
      `SELECT round(extract(epoch FROM expires_at - updated_at) / 3600)::text AS kept FROM pawl.idempotency_keys`,
    )
    expect(rows).toEqual([{ kept: '2' }])
  })

  test('a response that cannot be stored is wrong usage', async () => {
    const end = await pawlOn(database, 'answer', 'shop', 'k', ...REASON, '--status', '429')
    expect(end).toMatchObject({ exit: 2, err: expect.stringContaining('429') })
  })

  test('--json gives the key, without what its client sent', async () => {
    const { out } = await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed', '--json')
    expect(JSON.parse(out)).toMatchObject({
      type: 'done',
      key: { status: 'running', input: { redacted: true } },
    })
    expect(out).not.toContain(ORDER.card)
  })
})

test('what is not stuck is neither unstuck nor answered', async () => {
  await engine.execute(placeOrder, REQUEST)
  for (const argv of [['unstick'], ['answer', '--status', '410'], ['revoke']]) {
    const [name = '', ...more] = argv
    const end = await pawlOn(database, name, 'shop', 'k', ...REASON, ...more, '--json')
    expect(end, name).toMatchObject({ exit: 1, out: '' })
    expect(JSON.parse(end.err), name).toMatchObject({ error: { code: 'refused' } })
  }
  expect(await interventions()).toEqual([])
})

test('the timeline says where another took over', async () => {
  await dieAt(database, { pipelines: [placeOrder] }, 'paid/call#1:after', (doomed) =>
    doomed.execute(placeOrder, REQUEST),
  )
  await complete()
  const { out } = await pawlOn(database, 'show', 'shop', 'k')
  expect(out.match(/^.* taken over$/gm)).toEqual([expect.stringMatching(/ paid +2 +taken over$/)])
})

test('a key that was enqueued is taken over from nobody', async () => {
  await engine.enqueue(placeOrder, REQUEST)
  await complete()
  const { out } = await pawlOn(database, 'show', 'shop', 'k')
  expect(out).toMatch(/ finished +2$/m)
  expect(out).not.toContain('taken over')
})

test('revoke takes the key from its holder, and another goes on at once', async () => {
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

async function deadIds(): Promise<string[]> {
  const { jobs } = JSON.parse((await pawlOn(database, 'dead', '--json')).out) as {
    jobs: { jobId: string }[]
  }
  return jobs.map(({ jobId }) => jobId)
}

describe('requeue', () => {
  /** Two dead jobs. */
  beforeEach(async () => {
    for (const key of ['a', 'b']) await engine.execute(placeOrder, { ...REQUEST, key })
    await buryJobs(engine, 'mailbox is full')
  })

  test('by ids', async () => {
    const [first = '', second = ''] = await deadIds()
    expect(await pawlOn(database, 'requeue', first, first, ...REASON)).toMatchObject({
      exit: 0,
      out: 'Requeued 1 job.\n',
    })
    expect(await deadIds()).toEqual([second])
    // The one waits now, the other is dead, and a third never was.
    const mixed = await pawlOn(database, 'requeue', first, second, ...REASON, '--json')
    expect(mixed.exit).toBe(3)
    expect(JSON.parse(mixed.out)).toEqual({ requeued: 1, notDead: 1 })
    const none = await pawlOn(database, 'requeue', randomUUID(), ...REASON)
    expect(none).toMatchObject({
      exit: 1,
      out: '',
      err: expect.stringContaining('None of these jobs is dead'),
    })
  })

  test('by name', async () => {
    expect((await pawlOn(database, 'requeue', '--name', 'other', ...REASON)).out).toBe(
      "Requeued 0 jobs.\nNo dead job has the name 'other'.\n",
    )
    expect(await deadIds()).toHaveLength(2)
    expect((await pawlOn(database, 'requeue', '--name', 'send_receipt', ...REASON)).out).toBe(
      'Requeued 2 jobs.\n',
    )
    expect(await deadIds()).toEqual([])
  })

  test('all, with a note of who and why', async () => {
    const argv = ['requeue', '--all', '--reason', 'mailbox emptied', '--actor', 'bob']
    expect(await pawlOn(database, ...argv)).toMatchObject({ exit: 0, out: 'Requeued 2 jobs.\n' })
    expect(await deadIds()).toEqual([])
    const notes = await database.rows('SELECT DISTINCT action, actor, reason FROM pawl.interventions')
    expect(notes).toEqual([{ action: 'requeue', actor: 'bob', reason: 'mailbox emptied' }])
  })
})

test('reap deletes what has expired, and nothing else', async () => {
  for (const key of ['old', 'new']) await engine.execute(placeOrder, { ...REQUEST, key })
  await database.rows(
    `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 s' WHERE key = 'old'`,
  )
  const { exit, out } = await pawlOn(database, 'reap')
  expect(exit).toBe(0)
  expect(out).toMatch(/^Deleted keys +1$/m)
  expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([{ key: 'new' }])
  const json = await pawlOn(database, 'reap', '--json', '--reason', 'disk is full')
  expect(JSON.parse(json.out)).toMatchObject({ deleted: 0 })
})

describe('by the id of the key', () => {
  const CALLS: [name: string, more: string[], key: object][] = [
    ['unstick', ['--not-executed'], { status: 'running' }],
    ['answer', ['--status', '410'], { status: 'finished' }],
  ]
  test.each(CALLS)('%s', async (name, more, key) => {
    await engine.execute(sendParcel, REQUEST)
    await engine.execute(sendParcel, { ...REQUEST, key: 'other' })
    const id = (await engine.inspect('shop', 'k'))?.keyId ?? ''
    const { exit, out } = await pawlOn(database, name, '--id', id, ...REASON, ...more, '--json')
    expect(exit).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ type: 'done', key: { keyId: id, ...key } })
    expect(await interventions()).toMatchObject([{ action: name, reason: 'Ticket 4711' }])
    expect(await engine.inspect('shop', 'other')).toMatchObject({ status: 'stuck' })
  })

  test('revoke', async () => {
    await engine.enqueue(placeOrder, REQUEST)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour'`,
    )
    const id = (await engine.inspect('shop', 'k'))?.keyId ?? ''
    expect(await pawlOn(database, 'revoke', '--id', id, ...REASON)).toMatchObject({ exit: 0 })
    expect(await engine.inspect('shop', 'k')).toMatchObject({ lease: null })
    expect(await interventions()).toMatchObject([{ action: 'revoke' }])
  })

  test('that of no key is not found', async () => {
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

describe('drain', () => {
  beforeEach(async () => {
    await engine.enqueue(placeOrder, REQUEST)
  })

  test('tells what is left', async () => {
    const { exit, out } = await pawlOn(database, 'drain', 'place-order@2')
    expect(exit).toBe(3)
    expect(out).toMatch(/^place-order +2 +started +0 +0 +1 +0 /m)
    expect(out).toMatch(/^1 of place-order@2 in flight\.$/m)
    expect(await pawlOn(database, 'drain', 'place-order@1')).toMatchObject({
      exit: 0,
      out: 'Nothing of place-order@1 is in flight.\n',
    })
    const json = await pawlOn(database, 'drain', 'place-order@2', '--json')
    expect(JSON.parse(json.out)).toMatchObject({ pipeline: 'place-order', version: 2, left: 1 })
  })

  test('a pipeline of which no key is known is told of, once all its keys are gone', async () => {
    await complete()
    const finished = await pawlOn(database, 'drain', 'place-order@2')
    expect(finished).toMatchObject({ exit: 0, out: 'Nothing of place-order@2 is in flight.\n' })
    const misspelt = await pawlOn(database, 'drain', 'place-oder@2')
    expect(misspelt.exit).toBe(0)
    expect(misspelt.out).toMatch(
      /^Nothing of place-oder@2 is in flight\.\nNo key of a pipeline 'place-oder' was found/,
    )
    const json = async (name: string) =>
      JSON.parse((await pawlOn(database, 'drain', name, '--json')).out) as object
    expect(await json('place-order@2')).toMatchObject({ left: 0, known: true })
    expect(await json('place-oder@2')).toMatchObject({ left: 0, known: false })
  })

  test('--wait ends when nothing is left', async () => {
    const waiting = pawlOn(database, 'drain', 'place-order@2', '--wait')
    await complete()
    expect(await waiting).toMatchObject({ exit: 0, out: 'Nothing of place-order@2 is in flight.\n' })
  })

  test('--timeout ends the waiting', async () => {
    const { exit, out, err } = await pawlOn(database, 'drain', 'place-order@2', '--wait', '--timeout', '10ms')
    expect(exit).toBe(3)
    expect(out).toMatch(/^1 of place-order@2 in flight\.$/m)
    expect(err).toBe('1 in flight …\n')
  })
})

test('the actor is that of the option, else that of the environment', async () => {
  await engine.execute(sendParcel, REQUEST)
  await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed', '--actor', 'bob')
  await complete()
  await pawlOn(database, 'unstick', 'shop', 'k', ...REASON, '--not-executed')
  expect((await interventions()).map(({ actor }) => actor).toSorted()).toEqual(['anna@ops-1', 'bob'])
})
