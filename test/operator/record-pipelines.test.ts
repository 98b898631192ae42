import { randomUUID } from 'node:crypto'
import { absent, createBackground, type EngineOptions, pawl, respond, subscribe } from '@pawl/core'
import { prepareAtomic } from '@pawl/core/internal'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const note = pipeline<null>({ name: 'note', version: 1 }).finish(() => respond(204))

const all = pipeline<null>({ name: 'all', version: 3, maxAttempts: 7, commits: 'fewest' })
  .local('written', () => {}, { when: () => true, leaseMs: 5_000 })
  .foreign('paid', { call: () => ({ id: 1 }), effectName: 'charge', windowMs: 3_600_000, callTimeoutMs: 900 })
  .foreign('booked', {
    guarantee: 'queryable',
    call: () => ({ id: 2 }),
    reconcile: () => absent(),
    quietForMs: 4_000,
  })
  .foreign('mailed', { guarantee: 'at_most_once', call: () => {}, whenUnknown: () => {} })
  .finish(() => respond(201, {}))

function engineOf(options: Partial<EngineOptions<Database>> = {}) {
  const engine = createEngine({
    pool: database.pool(),
    pipelines: [note, all],
    schema: database.schema,
    ...options,
  })
  onTestFinished(() => engine.close())
  return engine
}

/** Rows, with the transaction that wrote each. */
const rows = () =>
  database.rows<{ pipeline: string; version: number; kind: string; description: Described; xmin: string }>(
    'SELECT pipeline, version, definition_hash, kind, description, xmin FROM pawl.pipelines ORDER BY pipeline, version',
  )
interface Described {
  readonly phases: readonly Record<string, unknown>[]
  readonly maxAttempts: number
}

const NO_CALL = {
  guarantee: null,
  effectName: null,
  windowMs: null,
  quietForMs: null,
  canReconcile: false,
  goesOnWhenUnknown: false,
  callTimeoutMs: null,
}

test('what is recorded says what a resume would do, without the code', async () => {
  const engine = engineOf({ namespace: 'rides', defaults: { callTimeoutMs: 1_000, maxAgeMs: 5_000_000 } })
  await engine.recordPipelines()
  const [recorded, other] = await rows()
  expect(recorded).toMatchObject({
    pipeline: 'all',
    version: 3,
    definition_hash: all.definitionHash,
    kind: 'pipeline',
  })
  expect(other).toMatchObject({ pipeline: 'note', version: 1 })
  expect(recorded?.description).toEqual({
    namespace: 'rides',
    maxAttempts: 7,
    maxAgeMs: 5_000_000,
    retentionMs: 86_400_000,
    commits: 'fewest',
    phases: [
      { name: 'written', kind: 'local', conditional: true, ...NO_CALL, leaseMs: 5_000 },
      {
        name: 'paid',
        kind: 'foreign',
        conditional: false,
        guarantee: 'keyed',
        effectName: 'charge',
        windowMs: 3_600_000,
        quietForMs: null,
        canReconcile: false,
        goesOnWhenUnknown: false,
        callTimeoutMs: 900,
        leaseMs: 30_000,
      },
      {
        name: 'booked',
        kind: 'foreign',
        conditional: false,
        guarantee: 'queryable',
        effectName: 'booked',
        windowMs: null,
        quietForMs: 4_000,
        canReconcile: true,
        goesOnWhenUnknown: false,
        callTimeoutMs: 1_000,
        leaseMs: 30_000,
      },
      {
        name: 'mailed',
        kind: 'foreign',
        conditional: false,
        guarantee: 'at_most_once',
        effectName: 'mailed',
        windowMs: null,
        quietForMs: null,
        canReconcile: false,
        goesOnWhenUnknown: true,
        callTimeoutMs: 1_000,
        leaseMs: 30_000,
      },
      { name: 'finished', kind: 'finish', conditional: false, ...NO_CALL, leaseMs: 30_000 },
    ],
  })
})

describe('a definition is written once', () => {
  test('and engines that start with the same one write nothing, nor use up a transaction id', async () => {
    await engineOf().recordPipelines()
    const before = await rows()
    const sent = await sentBy((pool) => engineOf({ pool, pipelining: false }).recordPipelines())
    const [statement] = sent.filter(({ text }) => text.includes('"pipelines"'))
    const client = await database.admin.connect()
    await client.query('BEGIN')
    expect((await client.query(statement ?? '')).rowCount).toBe(0)
    const { rows: ids } = await client.query('SELECT pg_current_xact_id_if_assigned() AS xid')
    await client.query('COMMIT')
    client.release()
    expect(ids).toEqual([{ xid: null }])
    expect(await rows()).toEqual(before)
  })

  test('and what an engine has recorded, it does not ask for again', async () => {
    const pool = database.pool()
    const engine = engineOf({ pool })
    await engine.recordPipelines()
    const connect = vi.spyOn(pool, 'connect')
    await engine.recordPipelines()
    expect(connect).not.toHaveBeenCalled()
  })

  test('and again where its settings are others', async () => {
    await engineOf().recordPipelines()
    const [before] = await rows()
    await engineOf({ defaults: { leaseMs: 9_000 } }).recordPipelines()
    const [after, ...others] = await rows()
    expect(others).toHaveLength(1)
    expect(before?.description.phases.at(-1)).toMatchObject({ leaseMs: 30_000 })
    expect(after?.description.phases.at(-1)).toMatchObject({ leaseMs: 9_000 })
  })

  test('also by twenty engines that start at once, half of them with other settings', async () => {
    const warnings = hear('pawl:warning')
    const engines = Array.from({ length: 20 }, (_, nth) =>
      engineOf({ pool: database.pool({ max: 1 }), defaults: { leaseMs: nth % 2 === 0 ? 9_000 : 8_000 } }),
    )
    await Promise.all(engines.map((engine) => engine.recordPipelines()))
    expect((await rows()).map(({ pipeline: name }) => name)).toEqual(['all', 'note'])
    expect(warnings).toEqual([])
  })

  test('and a definition that was changed under the same version has a row of its own', async () => {
    const { pipeline: declare } = pawl<Database>()
    const changed = declare<null>({ name: 'note', version: 1 })
      .local('noted', () => {})
      .finish(() => respond(204))
    await engineOf().recordPipelines()
    await engineOf({ pipelines: [changed] }).recordPipelines()
    expect((await rows()).filter(({ pipeline: name }) => name === 'note')).toHaveLength(2)
  })
})

test('atomic handlers that the engine knows by then are recorded too', async () => {
  const engine = engineOf()
  await engine.recordPipelines()
  prepareAtomic(
    engine,
    pipeline<null>({ name: 'handler', version: 1 }).finish(() => respond(204)),
  )
  await engine.recordPipelines()
  expect((await rows()).map(({ pipeline: name, kind }) => [name, kind])).toEqual([
    ['all', 'pipeline'],
    ['handler', 'atomic'],
    ['note', 'pipeline'],
  ])
})

test('handlers that are the same are recorded once, and keep nothing else from being recorded', async () => {
  const warnings = hear('pawl:warning')
  const engine = engineOf()
  for (let times = 0; times < 2; times++)
    prepareAtomic(
      engine,
      pipeline<null>({ name: 'handler', version: 1 }).finish(() => respond(204)),
    )
  await engine.recordPipelines()
  expect(warnings).toEqual([])
  expect((await rows()).map(({ pipeline: name }) => name)).toEqual(['all', 'handler', 'note'])
})

test('background services have it done when they start', async () => {
  const engine = engineOf()
  const background = createBackground({ engine })
  background.start()
  // Closing waits for it.
  await background.stop()
  await engine.close()
  expect(await rows()).toHaveLength(2)
})

test('a request sends nothing of it', async () => {
  const sent = await sentBy(async (pool) => {
    const engine = engineOf({ pool, pipelining: false })
    for (const key of ['one', 'one', 'two'])
      await engine.execute(note, { scope: 'somebody', key, input: null })
  })
  expect(sent.length).toBeGreaterThan(4)
  expect(sent.filter(({ text }) => /"pipelines"|"duplicates"|"readings"/.test(text))).toEqual([])
})

/** Every query that goes through a pool of one connection meanwhile. */
async function sentBy(
  work: (pool: pg.Pool) => Promise<void>,
): Promise<{ text: string; values: unknown[] }[]> {
  const sent: { text: string; values: unknown[] }[] = []
  const pool = database.pool({ max: 1 })
  pool.on('connect', (client) => {
    const target = client as unknown as { query: (...given: unknown[]) => unknown }
    const query = target.query.bind(client)
    target.query = (...given) => {
      const [config] = given as [string | { readonly text?: string; readonly values?: unknown[] }]
      const { text = '', values = [] } = typeof config === 'string' ? { text: config } : config
      sent.push({ text, values })
      return query(...given)
    }
  })
  await work(pool)
  return sent
}

const warned = (warnings: readonly { readonly message: string }[]) =>
  warnings.map(({ message }) => message).filter((message) => message.includes('could not be recorded'))

describe('what fails is reported, and is never thrown', () => {
  test('a right that is missing, with what to grant, and once', async () => {
    const role = `rides_${randomUUID().replaceAll('-', '').slice(0, 12)}`
    await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.schema} TO ${role}`)
    const warnings = hear('pawl:warning')
    const engine = engineOf({ pool: database.pool({ options: `-c role=${role}` }) })
    await engine.recordPipelines()
    await engine.recordPipelines()
    expect(warned(warnings)).toEqual([
      expect.stringContaining(
        `GRANT SELECT, INSERT, UPDATE ON "${database.schema}"."pipelines" TO "${role}";`,
      ),
    ])
    expect(warnings[0]?.error).toMatchObject({ code: 'PAWL_MISSING_RIGHT' })
    await engine.close()
    await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  test('tables that are not there, with what to do', async () => {
    const warnings = hear('pawl:warning')
    await engineOf({ schema: 'nowhere' }).recordPipelines()
    expect(warned(warnings)).toEqual([expect.stringContaining('migrate')])
  })

  test('a database that is away; background services try again until it is there', async () => {
    const away = await PostgresProxy.start(database.url)
    await away.close()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const isReported = new Promise<string>((resolve) => {
      onTestFinished(subscribe('pawl:warning', ({ message }) => resolve(message)))
    })
    const engine = engineOf({ pool: database.pool({ connectionString: away.url }) })
    const background = createBackground({ engine, completer: false, reaper: false })
    background.start()
    expect(await isReported).toContain('could not be recorded')
    // It goes on in this turn.
    await new Promise((resolve) => setImmediate(resolve))
    const back = await PostgresProxy.start(database.url, Number(new URL(away.url).port))
    onTestFinished(() => back.close())
    await vi.advanceTimersByTimeAsync(60_000)
    vi.useRealTimers()
    await background.stop()
    await engine.close()
    expect(await rows()).toHaveLength(2)
  })
})
