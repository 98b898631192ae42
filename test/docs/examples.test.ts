import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { type Engine, type Pipeline, respond } from '@pawl/core'
import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { engineThatDiesAt } from '../support/crash.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** A folder that git, compiler and linter ignore. Each run has a new one, since two may run at once. */
const FOLDER = fileURLToPath(new URL(`../dist/examples-${randomUUID()}`, import.meta.url))

/** What examples may use without importing. */
const PRELUDE = `
import type { Outcome, StoredResponse } from '@pawl/core'
import type { FastifyInstance } from 'fastify'
import type { Generated, Kysely } from 'kysely'
import type { Pool } from 'pg'
import type {} from '@pawl/fastify'
declare global {
  interface Database {
    rides: { id: Generated<string>; rider: string; amount: number; charge_id: string | null }
  }
  const pool: Pool
  const db: Kysely<Database>
  const app: FastifyInstance
  const user: { id: string }
  const key: string
  const payments: {
    charge(amount: number, options: { idempotencyKey: string; signal?: AbortSignal }): Promise<{ id: string }>
  }
  const parcels: {
    book(address: string, options: { ours: string; signal: AbortSignal }): Promise<{ id: string }>
    findByReference(ours: string, options: { signal: AbortSignal }): Promise<{ id: string } | null>
  }
  const fax: {
    send(number: string, options: { signal: AbortSignal }): Promise<{ id: string }>
    isUnknownNumber(error: unknown): boolean
    isLineBusy(error: unknown): boolean
  }
  const queue: {
    send(name: string, payload: unknown, options: { id: string }): Promise<void>
    sendMany(
      messages: readonly { id: string; name: string; payload: unknown }[],
      options: { signal: AbortSignal },
    ): Promise<{ id: string; reason: string; isFinal: boolean }[]>
  }
  const log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
  function isCardDeclined(error: unknown): boolean
  function userOfToken(authorization: string | undefined): Promise<{ id: string } | null>
  function send(response: StoredResponse): void
  function explain(outcome: Outcome): void
}
`

const TSCONFIG = {
  extends: '../../tsconfig.json',
  compilerOptions: { noEmit: true, composite: false, rootDir: ROOT, noUnusedLocals: false },
  include: ['*.ts'],
  exclude: [],
}

let examples: string[]

beforeAll(async () => {
  await mkdir(FOLDER, { recursive: true })
  await writeFile(join(FOLDER, 'prelude.d.ts'), PRELUDE)
  await writeFile(join(FOLDER, 'tsconfig.json'), JSON.stringify(TSCONFIG))
  const pages = [
    'README.md',
    'packages/core/README.md',
    'packages/fastify-adapter/README.md',
    'packages/graphile-worker/README.md',
    'packages/redis/README.md',
    'packages/opentelemetry/README.md',
    'packages/console/README.md',
    'packages/cli/README.md',
    'packages/crash-kit/README.md',
    'packages/dev-postgres/README.md',
    'bench/README.md',
    ...(await readdir(join(ROOT, 'docs')))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ]
  const blocks = await Promise.all(
    pages.map(async (page) => codeBlocks(await readFile(join(ROOT, page), 'utf8'))),
  )
  examples = blocks.flat()
  await Promise.all(examples.map((code, index) => writeFile(join(FOLDER, nameOf(code, index)), code)))
})
afterAll(() => rm(FOLDER, { recursive: true, force: true }))

function codeBlocks(markdown: string): string[] {
  return [...markdown.matchAll(/^```ts\n(.*?)^```$/gms)].map((match) => match[1] ?? '')
}

/** Other examples import an example by the name in its first line; the README's second example imports the first. */
function nameOf(code: string, index: number): string {
  if (index === 0) return 'create-ride.ts'
  return /^\/\/ ([a-z-]+\.ts)\n/.exec(code)?.[1] ?? `example-${index}.ts`
}

test('every example in the docs compiles', async () => {
  expect(examples.length).toBeGreaterThanOrEqual(3)
  // One of two with the same name would overwrite the other, and not be compiled.
  const names = examples.map((code, index) => nameOf(code, index))
  expect(names.toSorted()).toEqual([...new Set(names)].toSorted())
  const errors = await new Promise<string>((resolve) => {
    execFile(join(ROOT, 'node_modules/.bin/tsc'), ['-p', FOLDER], (_error, stdout) => resolve(stdout))
  })
  expect(errors).toBe('')
})

const isCardDeclined = (error: unknown) => (error as { readonly status?: number }).status === 402

test("the README's pipeline is about 30 lines, runs, and replays", async () => {
  expect(examples[0]?.trim().split('\n').length).toBeLessThanOrEqual(32)
  const database = await TestDatabase.create()
  await createRideTables(database)
  const payments = new Provider(inject('providerUrl'))
  Object.assign(globalThis, { payments, isCardDeclined })
  const page = (await import(pathToFileURL(join(FOLDER, 'create-ride.ts')).href)) as {
    createRide: Pipeline<Database, { amount: number }>
  }
  const engine = createEngine({
    pool: database.pool(),
    pipelines: [page.createRide],
    schema: database.schema,
  })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 7 } }
  const first = await engine.execute(page.createRide, request)
  const second = await engine.execute(page.createRide, request)
  if (first.type !== 'completed' || second.type !== 'replayed')
    throw new Error(`${first.type}, ${second.type}`)
  expect(second.response).toEqual(first.response)
  await payments.willMeet('declined')
  const declined = await engine.execute(page.createRide, { ...request, key: randomUUID() })
  expect(declined).toMatchObject({ type: 'completed', response: { status: 402 } })
  expect(await payments.ledger()).toHaveLength(1)
  await engine.close()
  await database.drop()
})

test('docs/guide.md names every option of the engine', async () => {
  const source = await readFile(join(ROOT, 'packages/core/src/engine/engine-options.ts'), 'utf8')
  const [, list = ''] = /^const OPTION_NAMES = \[(.*?)\]/ms.exec(source) ?? []
  const options = [...list.matchAll(/'(\w+)'/g)].map(([, option = '']) => option)
  expect(options).toContain('pipelining')
  const [, settings = ''] = (await readFile(join(ROOT, 'docs/guide.md'), 'utf8')).split('\n## Settings\n')
  expect(options.filter((option) => !new RegExp(`\\b${option}\\b`).test(settings))).toEqual([])
})

test('a job is written as docs/guide.md says: not before its phase has returned, and even if a savepoint in it is rolled back', async () => {
  const database = await TestDatabase.create()
  let seen: unknown
  const staging = pipeline<null>({ name: 'staging', version: 1 }).finish(async ({ tx, stage }) => {
    await sql`SAVEPOINT mine`.execute(tx)
    await stage('send_receipt', {})
    seen = (await sql`SELECT FROM ${sql.table(`${database.schema}.staged_jobs`)}`.execute(tx)).rows
    await sql`ROLLBACK TO SAVEPOINT mine`.execute(tx)
    return respond(200)
  })
  const engine = createEngine({ pool: database.pool(), pipelines: [staging], schema: database.schema })
  const outcome = await engine.execute(staging, { scope: 's', key: 'k', input: null })
  expect(outcome.type).toBe('completed')
  expect(seen).toEqual([])
  expect(await database.rows('SELECT name FROM pawl.staged_jobs')).toEqual([{ name: 'send_receipt' }])
  await engine.close()
  await database.drop()
})

test('the signature that docs/fastify.md checks catches a client that sends an old key with a new time', async () => {
  const { checkSignedTime, signTime } = (await import(
    pathToFileURL(join(FOLDER, 'signed-time.ts')).href
  )) as {
    checkSignedTime: (app: FastifyInstance, secret: string) => void
    signTime: (secret: string, key: unknown, sentAt: unknown) => Buffer
  }
  const app = Fastify()
  checkSignedTime(app, 'secret')
  app.post('/', () => 'done')
  const signature = signTime('secret', 'k1', '@1794888681').toString('hex')
  const status = async (sentAt: string, more: object = { 'x-signature': signature }) => {
    const headers = { 'idempotency-key': 'k1', 'idempotency-sent-at': sentAt, ...more }
    return (await app.inject({ method: 'POST', url: '/', headers })).statusCode
  }
  expect(await status('@1794888681')).toBe(200)
  expect(await status('@1794975081')).toBe(401)
  expect(await status('@1794888681', {})).toBe(401)
  expect(await status('@1794888681', { 'x-signature': '00' })).toBe(401)
  await app.close()
})

test('the application of docs/fastify.md runs, and its check of a retry passes', async () => {
  const database = await TestDatabase.create()
  await database.rows(
    `CREATE TABLE ${database.businessSchema}.notes (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), text text NOT NULL)`,
  )
  Object.assign(globalThis, { pool: database.pool(), userOfToken: async () => ({ id: 'ann' }) })
  vi.stubEnv('LOG_LEVEL', 'silent')
  await import(pathToFileURL(join(FOLDER, 'replay-check.ts')).href)
  expect(await database.rows(`SELECT text FROM ${database.businessSchema}.notes`)).toEqual([
    { text: 'hello' },
  ])
  vi.unstubAllEnvs()
  await database.drop()
})

test('the consumer of docs/guide.md pays once per message, however often and wherever it is delivered', async () => {
  const database = await TestDatabase.create()
  const payments = new Provider(inject('providerUrl'))
  Object.assign(globalThis, { payments })
  const page = (await import(pathToFileURL(join(FOLDER, 'consume-orders.ts')).href)) as {
    payOrder: Pipeline<Database, { amount: number }>
    consume: (engine: Engine<Database>, message: Message) => Promise<'acknowledge' | 'again' | 'dead'>
  }
  const { payOrder, consume } = page
  const options = { pipelines: [payOrder], schema: database.schema }
  const consumers = [1, 2, 3].map(() => createEngine({ ...options, pool: database.pool() }))
  const [first] = consumers as [Engine<Database>]

  // A queue that forgets acknowledgements: it delivers every message three times, to any consumer.
  const messages = Array.from({ length: 20 }, (_, n) => ({ id: `order-${n}`, body: { amount: n + 1 } }))
  const deliver = async (message: Message, consumer: Engine<Database>): Promise<string> => {
    const told = await consume(consumer, message)
    return told === 'again' ? deliver(message, consumer) : told
  }
  const told = await Promise.all(
    messages.flatMap((message) => consumers.map((consumer) => deliver(message, consumer))),
  )
  expect(new Set(told)).toEqual(new Set(['acknowledge']))
  expect(await payments.ledger()).toHaveLength(messages.length)

  // A consumer that dies after the payment: the queue delivers again, and the next consumer resumes.
  // Its pool is not one of the database's: its clients are never given back, so that it cannot be ended.
  const pool = new pg.Pool({ connectionString: database.url })
  const doomed = engineThatDiesAt({ ...options, pool }, 'paid/begin#1:before')
  const last = { id: 'order-last', body: { amount: 99 } }
  void consume(doomed.engine, last)
  await doomed.died
  expect(await consume(first, last)).toBe('again')
  await database.expireLeases()
  expect(await consume(first, last)).toBe('acknowledge')
  expect((await payments.ledger()).filter(({ amount }) => amount === 99)).toHaveLength(1)

  expect(await consume(first, { ...last, body: { amount: 100 } })).toBe('dead')
  await Promise.all(consumers.map((consumer) => consumer.close()))
  await database.drop()
})

interface Message {
  readonly id: string
  readonly body: { readonly amount: number }
}
