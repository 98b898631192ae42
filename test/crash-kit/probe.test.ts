import { randomUUID } from 'node:crypto'
import { createEngine, type Engine, pawl, type Pipeline, respond } from '@pawl/core'
import { createProbedEngine, traceEngine } from '@pawl/core/internal'
import type { Generated } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { Actor } from '../../packages/crash-kit/src/actors/actor.js'
import { Trial } from '../../packages/crash-kit/src/actors/trial.js'
import { type OpenEnvironment, openEnvironment } from '../../packages/crash-kit/src/open-environment.js'
import { positionNamer } from '../support/crash.js'
import { RecordingProxy } from '../support/recording-proxy.js'
import { TurnLog } from '../support/turn-log.js'

interface Database {
  notes: { id: Generated<string>; text: string }
}

const { pipeline } = pawl<Database>()
type Mark = (what: string) => void
type Body = (mark: Mark) => Pipeline<Database, null>

const begin = () => pipeline<null>({ name: 'watched', version: 1 })
const insert = (text: string) => ({ text })

/** A pipeline with a phase of each kind: rows, a call, a job. */
const ride: Body = (mark) =>
  begin()
    .local('noted', async ({ tx }) => {
      mark('noted begins')
      const note = await tx
        .insertInto('notes')
        .values(insert('one'))
        .returning('id')
        .executeTakeFirstOrThrow()
      mark('noted has its row')
      await tx.updateTable('notes').set({ text: 'two' }).where('id', '=', note.id).execute()
      return { noteId: note.id }
    })
    .foreign('called', {
      call: async ({ idempotencyKey }) => {
        mark('called begins')
        await Promise.resolve()
        return { id: idempotencyKey }
      },
      settle: async ({ tx, state, result }) => {
        mark('settles')
        await tx.updateTable('notes').set({ text: result.id }).where('id', '=', state.noteId).execute()
      },
      reference: ({ id }) => id,
    })
    .finish(async ({ state, stage }) => {
      await stage('send_note', { id: state.noteId })
      mark('has staged')
      return respond(201, { id: state.noteId })
    })

/** Queries that run at the same time, as people write them. */
const parallel: Body = (mark) =>
  begin()
    .local('noted', async ({ tx, stage }) => {
      await Promise.all([
        tx.insertInto('notes').values(insert('one')).execute(),
        tx.insertInto('notes').values(insert('two')).execute(),
        tx.selectFrom('notes').select('id').execute(),
        stage('send_note', null),
      ])
      mark('all are there')
    })
    .finish(() => respond(204))

/** The same, but one of them fails before the others are answered. */
const failingEarly: Body = (mark) =>
  begin()
    .local('noted', async ({ tx }) => {
      const all = Promise.all([
        tx.insertInto('notes').values(insert('one')).execute(),
        tx.insertInto('notes').values(insert('two')).execute(),
        Promise.reject(new Error('early')),
      ])
      await all.catch(() => mark('one has failed'))
      await all
    })
    .finish(() => respond(204))

/** The same, but the server refuses one of them while the others wait. */
const failingAtTheServer: Body = (mark) =>
  begin()
    .local('noted', async ({ tx }) => {
      const settled = await Promise.allSettled([
        tx.insertInto('notes').values(insert('one')).execute(),
        tx
          .insertInto('notes')
          .values({ text: null as never })
          .execute(),
        tx.insertInto('notes').values(insert('three')).execute(),
      ])
      mark(settled.map(({ status }) => status).join(', '))
      throw new Error('late')
    })
    .finish(() => respond(204))

/** One row, with or without an unnecessary turn before it. */
const oneRow =
  (turn: (() => Promise<void>) | null): Body =>
  (mark) =>
    begin()
      .local('noted', async ({ tx }) => {
        if (turn !== null) await turn()
        await tx.insertInto('notes').values(insert('one')).execute()
        mark('has its row')
      })
      .finish(() => respond(204))

let proxy: RecordingProxy
let opened: OpenEnvironment

beforeAll(async () => {
  // Back-offs have a random part.
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
  proxy = await RecordingProxy.start(inject('databaseUrl'))
  opened = await openEnvironment({
    pipeline: () => ride(() => {}),
    pool: new pg.Pool({ connectionString: proxy.url }),
    prepare: async ({ pool }) => {
      await pool.query(
        'CREATE TABLE notes (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), text text NOT NULL)',
      )
    },
    request: { scope: 'anybody', input: null as never },
  })
})
afterAll(async () => {
  vi.restoreAllMocks()
  await opened.close()
  await proxy.close()
})

interface Sending {
  readonly pipelining: boolean
  readonly preparedStatements: boolean
}

interface Traced {
  /** What was sent to the server, message by message, without what is new in each run. */
  readonly bytes: readonly string[]
  /** When it was sent: in which order relative to the answers and to user code, and in which turn. */
  readonly turns: readonly string[]
  readonly outcome: string
}

type Run = (body: Body, sending: Sending) => Promise<Traced>

/** Executes on a pool whose only connection is already open. */
async function traced(pool: pg.Pool, log: TurnLog, run: () => Promise<string>): Promise<Traced> {
  log.watch(pool)
  ;(await pool.connect()).release()
  const { application_name: application = '' } = pool.options as { application_name?: string }
  proxy.take(application)
  log.begin()
  const outcome = await run()
  return { bytes: messagesIn(proxy.take(application)), turns: log.lines, outcome }
}

function onEngine(make: (options: Parameters<typeof createEngine<Database>>[0]) => Engine<Database>): Run {
  return async (body, sending) => {
    const { database } = opened.environment
    const pool = new pg.Pool(database.poolConfig('client', { max: 1 }))
    const log = new TurnLog()
    const target = body((what) => log.mark(what))
    const engine = make({ pool, pipelines: [target], schema: database.pawlSchema, ...sending })
    onTestFinished(async () => {
      await engine.close()
      await pool.end()
    })
    return traced(pool, log, async () => {
      const request = { scope: 'anybody', key: randomUUID(), input: null }
      return (await engine.execute(target, request)).type
    })
  }
}

const unprobed = onEngine((options) => createEngine(options))

const probed = onEngine((options) => {
  const name = positionNamer()
  const passed: string[] = []
  return createProbedEngine<Database>(options, (position) => void passed.push(name(position)))
})

const pass = <T>(_of: unknown, run: () => Promise<T>): Promise<T> => run()

/** With a tracing that only passes on what goes through it. */
const tracedOnly = onEngine((options) => {
  const engine = createEngine(options)
  const around = { request: pass, phase: pass, body: pass, call: pass, round: pass }
  traceEngine(engine, { ...around, traceparent: () => null, granted: () => {}, waited: () => {} })
  return engine
})

/** Executes as the crash kit does, with everything that it observes: positions, user code, and connections. */
const inTheKit: Run = async (body, sending) => {
  const log = new TurnLog()
  const environment = {
    ...opened.environment,
    engine: { ...sending },
    pipeline: () => body((what) => log.mark(what)) as never,
  }
  const trial = await Trial.open(environment)
  const name = `client ${randomUUID().slice(0, 8)}`
  const actor = new Actor(trial, name, { at: () => {} })
  onTestFinished(() => actor.close())
  return traced(actor.pool, log, async () => {
    const outcome = await actor.execute()
    return outcome === 'died' ? outcome : outcome.type
  })
}

const BODIES = { ride, parallel, failingEarly, failingAtTheServer }
const SENDINGS: readonly Sending[] = [
  { pipelining: true, preparedStatements: false },
  { pipelining: true, preparedStatements: true },
  { pipelining: false, preparedStatements: false },
]

const COMPARED = {
  'with a tracing, as without one': [unprobed, tracedOnly],
  'with a probe that stops nowhere, as without one': [unprobed, probed],
  'in the crash kit, as with a probe that stops nowhere': [probed, inTheKit],
} as const

describe.each(Object.entries(COMPARED))('an engine %s', (_, [bare, watched]) => {
  describe.each(SENDINGS)('pipelining $pipelining, preparedStatements $preparedStatements', (sending) => {
    test.each(Object.entries(BODIES))('%s: sends the same bytes in the same turns', async (_name, body) => {
      // The process does not ask again for what it has learned about a statement's rows.
      await unprobed(body, sending)
      const [one, other] = [await bare(body, sending), await watched(body, sending)]
      expect.soft(other.bytes).toEqual(one.bytes)
      expect.soft(other.turns).toEqual(one.turns)
      expect(other.outcome).toBe(one.outcome)
      expect(one.bytes.length).toBeGreaterThan(5)
    })
  })
})

test('the trace shows even a single additional turn', async () => {
  const [sending = { pipelining: true, preparedStatements: false }] = SENDINGS
  const [without, withOne] = [oneRow(null), oneRow(async () => {})]
  await unprobed(without, sending)
  const [one, other] = [await unprobed(withOne, sending), await unprobed(without, sending)]
  expect(one.bytes).toEqual(other.bytes)
  expect(one.turns).not.toEqual(other.turns)
})

/** Returns the frontend's messages, each with its letter, with ids, hashes and times replaced. */
function messagesIn(bytes: Buffer): string[] {
  const messages: string[] = []
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    messages.push(bytes.toString('latin1', at, at + 1) + plain(bytes.toString('latin1', at + 5, end)))
    at = end
  }
  return messages
}

function plain(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replaceAll(/pawl_[\w-]{43}(?![\w-])/g, '<provider key>')
    .replaceAll(/[0-9a-f]{32,}/g, '<hash>')
    .replaceAll(/\b1[0-9]{12}(?:\.\d+)?\b/g, '<ms>')
}
