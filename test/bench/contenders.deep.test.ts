import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import type { Contender, Opened } from '../../bench/src/contender.js'
import { absurd } from '../../bench/src/contenders/absurd.js'
import { hasAbsurdSchema } from '../../bench/src/contenders/absurd-schema-file.js'
import { handWritten } from '../../bench/src/contenders/hand-written.js'
import { handWrittenFastify } from '../../bench/src/contenders/hand-written-fastify.js'
import { noIdempotency } from '../../bench/src/contenders/no-idempotency.js'
import { pawlGuarded } from '../../bench/src/contenders/guarded.js'
import { original } from '../../bench/src/contenders/original.js'
import { pawlFewest } from '../../bench/src/contenders/pawl-fewest.js'
import { pawlFastify } from '../../bench/src/contenders/pawl-fastify.js'
import { pawlEach } from '../../bench/src/contenders/pawl-each.js'
import { pawl } from '../../bench/src/contenders/pawl.js'
import { schemaOfVariant } from '../../bench/src/contenders/registry.js'
import { restate } from '../../bench/src/contenders/restate.js'
import { selectRoute } from '../../bench/src/contenders/select-route.js'
import { StandIn } from '../../bench/src/provider/stand-in.js'
import { type BenchDatabase, openDatabase } from '../../bench/src/run/database.js'

let database: BenchDatabase
let provider: StandIn
let providerUrl: string

beforeAll(async () => {
  database = await openDatabase(inject('databaseUrl'))
  provider = new StandIn()
  provider.server.listen(0, '127.0.0.1')
  await once(provider.server, 'listening')
  providerUrl = `http://127.0.0.1:${(provider.server.address() as AddressInfo).port}`
})
afterAll(async () => {
  provider.server.closeAllConnections()
  provider.server.close()
  await database.close()
})

const schemaOf = ({ name }: Contender): string => `bench_${name.replaceAll('-', '_')}`

async function opened(contender: Contender, poolSize = 4): Promise<Opened> {
  await contender.prepare(database.url)
  const options = { databaseUrl: database.url, providerUrl, poolSize, providerDelayMs: 0 }
  const one = await contender.open(options)
  onTestFinished(() => one.close())
  return one
}

async function count(from: string): Promise<number> {
  const { rows } = await database.observer.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM ${from}`,
  )
  return rows[0]?.count ?? -1
}

/** Runs the work while the provider refuses every charge. */
async function refusing(work: () => Promise<unknown>): Promise<void> {
  provider.isRefusing = true
  await work().catch(() => {})
  provider.isRefusing = false
}

const withKeys = [pawl, pawlEach, pawlFewest, pawlFastify, handWritten, handWrittenFastify, original].map(
  (contender) => ({
    name: contender.name,
    contender,
    jobs: contender.name.startsWith('pawl') ? 'staged_jobs' : 'jobs',
  }),
)

/** Those that keep a request until it is done, and try again by themselves. */
const durable = [restate, ...(hasAbsurdSchema() ? [absurd] : [])].map((contender) => ({
  name: contender.name,
  contender,
  jobs: 'jobs',
}))

const withoutKeys = [{ name: noIdempotency.name, contender: noIdempotency, jobs: 'jobs' }]

describe.each([...withKeys, ...durable, ...withoutKeys])('$name', ({ contender, jobs }) => {
  test('makes a ride, a charge and a job of a request', async () => {
    const one = await opened(contender)
    const charges = provider.count
    const answers = await Promise.all(Array.from({ length: 10 }, () => one.request(randomUUID())))
    for (const { status, body } of answers) {
      expect(status).toBe(201)
      const { ride, charge } = JSON.parse(body) as { ride: string; charge: string }
      expect(
        await count(`${schemaOf(contender)}.rides WHERE id = '${ride}' AND charge_id = '${charge}'`),
      ).toBe(1)
    }
    expect(provider.count - charges).toBe(10)
    expect(await count(`${schemaOf(contender)}.rides`)).toBe(10)
    expect(await count(`${schemaOf(contender)}.${jobs}`)).toBe(10)
  })
})

test.each([...withKeys, ...durable])(
  '$name answers a key that has finished the same, and does nothing',
  async ({ contender }) => {
    const one = await opened(contender)
    const key = randomUUID()
    const first = await one.request(key)
    const charges = provider.count
    const second = await one.request(key)
    expect(JSON.parse(second.body)).toEqual(JSON.parse(first.body))
    expect(second.status).toBe(201)
    expect(provider.count).toBe(charges)
    expect(await count(`${schemaOf(contender)}.rides`)).toBe(1)
  },
)

test.each(durable)('$name tries a charge again that the provider refused', async ({ contender, jobs }) => {
  const one = await opened(contender)
  const charges = provider.count
  provider.isRefusing = true
  const refused = once(provider.server, 'request')
  const answer = one.request(randomUUID())
  await refused
  provider.isRefusing = false
  expect((await answer).status).toBe(201)
  expect(provider.count - charges).toBe(1)
  expect(await count(`${schemaOf(contender)}.rides`)).toBe(1)
  expect(await count(`${schemaOf(contender)}.${jobs}`)).toBe(1)
})

describe.each(withKeys)('$name, with a key that comes again', ({ contender, jobs }) => {
  test('resumes one that the provider refused from where it was', async () => {
    const one = await opened(contender)
    const key = randomUUID()
    await refusing(() => one.request(key))
    expect(await count(`${schemaOf(contender)}.rides WHERE charge_id IS NULL`)).toBe(1)
    expect((await one.request(key)).status).toBe(201)
    expect(await count(`${schemaOf(contender)}.rides WHERE charge_id IS NOT NULL`)).toBe(1)
    expect(await count(`${schemaOf(contender)}.rides`)).toBe(1)
    expect(await count(`${schemaOf(contender)}.${jobs}`)).toBe(1)
  })
})

test.each([
  { name: pawl.name, contender: pawl, open: 0 },
  { name: pawlEach.name, contender: pawlEach, open: 0 },
  { name: pawlFastify.name, contender: pawlFastify, open: 0 },
  { name: handWritten.name, contender: handWritten, open: 0 },
  { name: handWrittenFastify.name, contender: handWrittenFastify, open: 0 },
  { name: original.name, contender: original, open: 1 },
])(
  'while $name calls, it has $open transactions open, and answers a duplicate with 409',
  async ({ contender, open }) => {
    const held: ServerResponse[] = []
    const slow = createServer((_request, response) => held.push(response)).listen(0, '127.0.0.1')
    await once(slow, 'listening')
    onTestFinished(() => void slow.close())
    await contender.prepare(database.url)
    const { port } = slow.address() as AddressInfo
    const one = await contender.open({
      databaseUrl: database.url,
      providerUrl: `http://127.0.0.1:${port}`,
      poolSize: 2,
      providerDelayMs: 0,
    })
    onTestFinished(() => one.close())
    const called = once(slow, 'request')
    const key = randomUUID()
    const answer = one.request(key)
    await called
    expect(
      await count(`pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`),
    ).toBe(open)
    expect((await one.request(key)).status).toBe(409)
    held[0]?.end('{"id":"ch_1"}')
    expect((await answer).status).toBe(201)
  },
)

test('Pawl resumes everything that was refused through its completer, even more than it finds in one round', async () => {
  const one = await opened(pawl)
  await refusing(() => Promise.all(Array.from({ length: 120 }, () => one.request(randomUUID()))))
  const makeDue = 'UPDATE bench_pawl.idempotency_keys SET run_after = NULL, lease_until = NULL'
  await database.observer.query(makeDue)
  expect(await one.controls?.['complete']?.(2)).toMatchObject({ completed: 120 })
  expect(await count(`bench_pawl.idempotency_keys WHERE status = 'finished'`)).toBe(120)
})

test('Pawl with all guard rails on refuses nothing, counts what scopes use, and seals what it keeps', async () => {
  const variant = 'pawl-guarded@all'
  const schema = schemaOfVariant(variant)
  const one = await opened(pawlGuarded(variant, schema))
  for (let sent = 0; sent < 10; sent++) expect((await one.request(randomUUID())).status).toBe(201)
  expect(await count(`${schema}.scope_usage`)).toBeGreaterThan(0)
  expect(await count(`${schema}.idempotency_keys WHERE state::text LIKE '%"ride"%'`)).toBe(0)
  expect(await count(`${schema}.idempotency_keys WHERE status = 'finished'`)).toBe(10)
})

test('the route with one SELECT answers with what was stored, and nothing else', async () => {
  const one = await opened(selectRoute)
  const key = randomUUID()
  await one.controls?.['insert']?.([key])
  const { status, body } = await one.request(key)
  expect(status).toBe(201)
  expect(Object.keys(JSON.parse(body) as object)).toEqual(['ride', 'charge'])
  expect((await one.request(randomUUID())).status).toBe(404)
})
