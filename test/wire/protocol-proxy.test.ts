import { type EventEmitter, once } from 'node:events'
import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { gate } from '../support/signals.js'
import { type Decide, ProtocolProxy } from './protocol-proxy.js'
import { statementIn, type WireMessage } from './wire-message.js'

async function proxied(
  decide: Decide | null = null,
): Promise<{ proxy: ProtocolProxy; config: pg.ClientConfig }> {
  const target = new URL(inject('databaseUrl'))
  const proxy = await ProtocolProxy.start({ host: target.hostname, port: Number(target.port || 5432) })
  onTestFinished(() => proxy.close())
  proxy.decide = decide
  const url = new URL(target)
  url.hostname = proxy.host
  url.port = String(proxy.port)
  return { proxy, config: { connectionString: url.href } }
}

async function connected(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(config)
  client.on('error', () => {})
  await client.connect()
  onTestFinished(async () => {
    await client.end().catch(() => {})
  })
  return client
}

/** Runs a query on a connection that does not lead through the proxy. */
async function aside<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
  const client = await connected({ connectionString: inject('databaseUrl') })
  return (await client.query<Row>(sql, values)).rows
}

const table = (): string => `wire_${process.hrtime.bigint()}`

async function withTable(): Promise<string> {
  const name = table()
  await aside(`CREATE TABLE ${name} (n integer)`)
  onTestFinished(async () => {
    await aside(`DROP TABLE ${name}`)
  })
  return name
}

test('the proxy sees every message of both sides, whole and in order, whatever its size', async () => {
  const seen: WireMessage[] = []
  const { config } = await proxied((message) => {
    seen.push({ ...message, bytes: Buffer.from(message.bytes) })
    return 'pass'
  })
  const client = await connected(config)
  const large = 'x'.repeat(3_000_000)
  const { rows } = await client.query('SELECT $1::text AS text, 2 AS two', [large])
  expect(rows).toEqual([{ text: large, two: 2 }])
  const begins = seen.findIndex(({ type }) => type === 'Parse')
  expect(seen.slice(begins).map(({ from, type }) => `${from} ${type}`)).toEqual([
    ...['Parse', 'Bind', 'Describe', 'Execute', 'Sync'].map((type) => `client ${type}`),
    ...['ParseComplete', 'BindComplete', 'RowDescription', 'DataRow', 'CommandComplete', 'ReadyForQuery'].map(
      (type) => `server ${type}`,
    ),
  ])
  expect(seen.slice(0, 2).map(({ from, type }) => `${from} ${type}`)).toEqual([
    'client StartupMessage',
    'server Authentication',
  ])
  expect(seen.map(statementIn).filter((text) => text !== null)).toEqual(['SELECT $1::text AS text, 2 AS two'])
  // The messages of each side are counted separately.
  for (const from of ['client', 'server'] as const)
    expect(seen.filter((message) => message.from === from).map(({ nth }) => nth)).toEqual(
      seen.filter((message) => message.from === from).map((_, at) => at),
    )
})

test('the proxy knows the state of the transaction, refuses encryption, and passes a cancel request', async () => {
  const statuses: (string | null)[] = []
  const types: string[] = []
  const { config } = await proxied(({ type, status }) => {
    if (type === 'Query') statuses.push(status)
    types.push(type)
    return 'pass'
  })
  const client = await connected({ ...config, ssl: false })
  await client.query('BEGIN')
  await client.query('SELECT 1')
  await client.query('SELECT 1 / 0').catch(() => {})
  await client.query('ROLLBACK')
  await client.query('SELECT 1')
  expect(statuses).toEqual(['I', 'T', 'T', 'E', 'I'])
  await expect(connected({ ...config, ssl: true })).rejects.toThrow('does not support SSL')

  const sleeping = client.query('SELECT pg_sleep(60)')
  // A cancel request has no effect on a backend that has not begun the statement.
  const { processID } = client as unknown as { readonly processID: number }
  await expect
    .poll(() => aside('SELECT wait_event FROM pg_stat_activity WHERE pid = $1', [processID]))
    .toEqual([{ wait_event: 'PgSleep' }])
  const canceller = new pg.Client(config)
  canceller.on('error', () => {})
  ;(canceller as unknown as { cancel(client: pg.Client, query: unknown): void }).cancel(
    client,
    (client as unknown as { _activeQuery: unknown; activeQuery: unknown })['_activeQuery'],
  )
  await expect(sleeping).rejects.toMatchObject({ code: '57014' })
  expect(types).toContain('CancelRequest')
})

test('the proxy notices a message that writes twice without BEGIN', async () => {
  const name = await withTable()
  const { proxy, config } = await proxied()
  const client = await connected(config)
  const insert = `INSERT INTO ${name} VALUES (1)`
  const { connection } = client as unknown as { readonly connection: RawConnection }
  const batch = (...texts: string[]): Promise<unknown> => {
    for (const text of texts) {
      connection.parse({ text })
      connection.bind({})
      connection.execute({})
    }
    connection.sync()
    return once(connection, 'readyForQuery')
  }
  await batch('BEGIN', insert, insert, 'COMMIT')
  await batch('SELECT 1', insert)
  expect(proxy.loneWrites).toEqual([])
  await batch(insert, `WITH a AS (SELECT 1) ${insert}`)
  expect(proxy.loneWrites).toEqual([[insert, `WITH a AS (SELECT 1) ${insert}`]])
})

/** What `pg` sends messages with; its types leave it out. */
interface RawConnection extends EventEmitter {
  parse(statement: { text: string }): void
  bind(values: object): void
  execute(portal: object): void
  sync(): void
}

test('a message before which the connection is cut has not arrived, and those before it have', async () => {
  const name = await withTable()
  const { config } = await proxied(({ type }) => (type === 'Sync' ? { cut: 'both', when: 'before' } : 'pass'))
  const client = await connected(config)
  await client.query('BEGIN')
  // The last message before the Sync is executed, and undone because nothing follows it.
  await expect(client.query(`INSERT INTO ${name} VALUES ($1)`, [1])).rejects.toThrow()
  expect(await aside(`SELECT n FROM ${name}`)).toEqual([])
})

test('a COMMIT takes effect without the Sync that would follow it', async () => {
  const name = await withTable()
  let executed = 0
  const { config } = await proxied(({ type }) => {
    if (type === 'Execute') executed++
    return type === 'Sync' && executed === 2 ? { cut: 'both', when: 'before' } : 'pass'
  })
  const client = await connected(config)
  await client.query('BEGIN')
  await client.query(`INSERT INTO ${name} VALUES ($1)`, [1])
  await expect(client.query({ text: 'COMMIT', values: [], name: 'c' })).rejects.toThrow()
  await expect.poll(() => aside(`SELECT n FROM ${name}`)).toEqual([{ n: 1 }])
})

test('when an answer is lost, the server has executed what it was asked', async () => {
  const name = await withTable()
  const { config } = await proxied(({ type }) => (type === 'Sync' ? 'lose_answer' : 'pass'))
  const client = await connected(config)
  await expect(client.query(`INSERT INTO ${name} VALUES ($1)`, [1])).rejects.toThrow()
  expect(await aside(`SELECT n FROM ${name}`)).toEqual([{ n: 1 }])
})

test('a message that is held passes when it is let go, even if its client has gone', async () => {
  const name = await withTable()
  const reached = gate()
  const letGo = gate()
  const { config } = await proxied(({ type, bytes }) => {
    if (type !== 'Query' || !bytes.includes('INSERT')) return 'pass'
    reached.open()
    return { hold: letGo.opened }
  })
  const client = await connected(config)
  const inserted = client.query(`INSERT INTO ${name} VALUES (1)`).catch(() => 'lost')
  await reached.opened
  expect(await aside(`SELECT n FROM ${name}`)).toEqual([])
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  expect(await inserted).toBe('lost')
  letGo.open()
  await expect.poll(() => aside(`SELECT n FROM ${name}`)).toEqual([{ n: 1 }])
})

test('the transaction of a client that vanishes stays open at the server until a time-out ends it', async () => {
  const name = await withTable()
  const { config } = await proxied(({ type, bytes }) =>
    type === 'Query' && bytes.includes('INSERT') ? { cut: 'client', when: 'after', reset: true } : 'pass',
  )
  const client = await connected({ ...config, application_name: name })
  await client.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = 300`)
  await expect(client.query(`INSERT INTO ${name} VALUES (1)`)).rejects.toThrow()
  const backends = () =>
    aside<{ state: string }>('SELECT state FROM pg_stat_activity WHERE application_name = $1', [name])
  await expect.poll(backends).toEqual([{ state: 'idle in transaction' }])
  await expect.poll(backends, { timeout: 10_000 }).toEqual([])
})
