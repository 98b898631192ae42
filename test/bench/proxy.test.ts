import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { Proxy } from '../../bench/src/measure/proxy.js'

async function connectedThrough(roundTripMs: number): Promise<{ proxy: Proxy; client: pg.Client }> {
  const proxy = new Proxy(inject('databaseUrl'))
  proxy.delayBy(roundTripMs)
  const url = new URL(inject('databaseUrl'))
  url.hostname = '127.0.0.1'
  url.port = String(await proxy.listen())
  const client = new pg.Client({ connectionString: url.href })
  client.on('error', () => {})
  await client.connect()
  onTestFinished(async () => {
    await client.end().catch(() => {})
    proxy.close()
  })
  return { proxy, client }
}

test('counts statements and round trips of a real connection', async () => {
  const { proxy, client } = await connectedThrough(1)
  const before = proxy.traffic()
  await client.query('BEGIN')
  await client.query('SELECT $1::text', ['a'])
  await client.query('SELECT 1; SELECT 2')
  await client.query('COMMIT')
  const after = proxy.traffic()
  expect(after.statements - before.statements).toBe(5)
  expect(after.roundTrips - before.roundTrips).toBe(4)
  expect(after.isEncrypted).toBe(false)
})

test('passes large answers through unchanged', async () => {
  const { client } = await connectedThrough(0.2)
  const { rows } = await client.query<{ text: string }>(`SELECT repeat('C', 1000000) AS text`)
  expect(rows[0]?.text).toBe('C'.repeat(1_000_000))
})

test('closes one side when the other closes', async () => {
  const { client } = await connectedThrough(1)
  const other = new pg.Client({ connectionString: inject('databaseUrl') })
  await other.connect()
  onTestFinished(() => other.end())
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const ended = new Promise((resolve) => client.once('end', () => resolve('ended')))
  await other.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
  expect(await ended).toBe('ended')
})
