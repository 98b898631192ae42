import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { askForRide, newKey, RIDE } from '../support/rides-client.js'
import { RIDES_DIST } from '../support/rides-processes.js'

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return String(port)
}

test('npm run rides:server hands on what the environment asks of the service, and prints where the console is', async () => {
  const env = {
    ...process.env,
    DATABASE_URL: inject('databaseUrl'),
    PORT: '0',
    HOST: '127.0.0.1',
    PROTECT_KEY: 'ab'.repeat(32),
    LIMIT_NEW_PER_MINUTE: '1',
    METRICS_PORT: await freePort(),
  }
  const server = spawn(process.execPath, [join(RIDES_DIST, 'demo/serve.js')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(server, 'exit')
  try {
    let said = ''
    for await (const chunk of server.stdout.iterator({ destroyOnReturn: false })) {
      said += String(chunk)
      if (said.includes('Ctrl-C')) break
    }
    const api = /The API is at (http:\/\/[\d.:]+\d)/.exec(said)?.[1] ?? ''
    expect((await fetch(/http:\S+\/enter\/\S+/.exec(said)?.[0] ?? '')).status).toBe(200)
    expect((await askForRide(api, newKey())).status).toBe(201)
    expect((await askForRide(api, newKey())).status).toBe(429)
    const metrics = await fetch(`http://127.0.0.1:${env.METRICS_PORT}/metrics`)
    expect(await metrics.text()).toMatch(/pawl_requests_total\{.*pawl_outcome="limited".*\} 1\n/)
    const db = new pg.Client({ connectionString: /PostgreSQL at (postgres\S+),/.exec(said)?.[1] })
    await db.connect()
    const { rows } = await db.query('SELECT input FROM pawl.idempotency_keys')
    await db.end()
    expect(JSON.stringify(rows)).toContain('pawl:sealed:')
    expect(JSON.stringify(rows)).not.toContain(String(RIDE.origin_lat))
  } finally {
    server.kill('SIGTERM')
    await ended
  }
})
