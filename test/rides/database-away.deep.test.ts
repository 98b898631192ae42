import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { askForRide, expectBalancedBooks, newKey } from '../support/rides-client.js'
import {
  createDatabase,
  dropDatabase,
  onServer,
  Rides,
  RidesProcess,
  until,
} from '../support/rides-processes.js'

const rides = await Rides.start()
afterAll(() => rides.end())

const nameOf = (url: string) => new URL(url).pathname.slice(1)

/** Ends all connections to a database, and takes no new ones until told. */
async function away(url: string, isAway: boolean): Promise<void> {
  const name = nameOf(url)
  await onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS ${!isAway}`)
  if (!isAway) return
  await until('the end of all connections', async () => {
    const open = `FROM pg_stat_activity WHERE datname = '${name}' AND backend_type = 'client backend'`
    return (await onServer(`SELECT pg_terminate_backend(pid) ${open}`)).length === 0
  })
}

test('without its database, the service answers 503 and when to come back; then the same request succeeds', async () => {
  const api = await rides.startApi()
  expect((await askForRide(api.url, newKey())).status).toBe(201)
  const key = newKey()
  await away(rides.databaseUrl, true)
  const answers = await Promise.all([askForRide(api.url, key), askForRide(api.url, newKey())])
  await away(rides.databaseUrl, false)
  expect(answers.map(({ status }) => status)).toEqual([503, 503])
  for (const { headers } of answers) expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1)
  expect((await askForRide(api.url, key)).status).toBe(201)
  await expectBalancedBooks(rides)
})

test.each(['server.js', 'worker.js'])(
  '%s says in one line that its database is read-only',
  async (script) => {
    const url = await createDatabase()
    await onServer(`ALTER DATABASE ${nameOf(url)} SET default_transaction_read_only = on`)
    const standby = new RidesProcess(script, {
      DATABASE_URL: url,
      STRIPE_API_BASE: rides.standIn.url,
      PORT: '0',
    })
    expect(await standby.ended).toBe('1')
    expect(standby.errors).toEqual([
      expect.stringMatching(
        /^DATABASE_URL names a server that does not take writes: .* It takes the primary\.$/,
      ),
    ])
    await dropDatabase(url)
  },
)

test('a worker whose queue has given up ends, so that it is started again', async () => {
  const api = await rides.startApi({ env: { BACKGROUND: 'off' } })
  expect((await askForRide(api.url, newKey())).status).toBe(201)
  // A pipe takes nothing until somebody reads it: the receipt is being written for as long as this test wants.
  const pipe = join(await mkdtemp(join(tmpdir(), 'pawl-test-pipe-')), 'receipts')
  execFileSync('mkfifo', [pipe])
  const worker = await rides.startWorker({ env: { RECEIPTS_FILE: pipe } })
  const locked = 'SELECT FROM graphile_worker.jobs WHERE locked_by IS NOT NULL'
  await until('a job that is being done', async () => (await rides.rows(locked)).length > 0)
  await away(rides.databaseUrl, true)
  createReadStream(pipe).resume()
  expect(await worker.ended).toBe('1')
  await away(rides.databaseUrl, false)
  expect(worker.errors.join('\n')).toContain('graphile-worker has stopped')
})

test('a server that accepts connections and says nothing is not waited for indefinitely', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const api = new RidesProcess('server.js', {
    DATABASE_URL: `postgresql://any@127.0.0.1:${port}/any`,
    STRIPE_API_BASE: rides.standIn.url,
    PORT: '0',
  })
  expect(await api.ended).toBe('1')
  expect(api.errors.join('\n')).toContain('timeout')
  silent.close()
})

test.each(['server.js', 'worker.js'])('%s starts without a warning about its pool', async (script) => {
  const started = script === 'server.js' ? await rides.startApi() : await rides.startWorker()
  expect(started.errors).toEqual([])
})

test('after a failover that lost ride and key after the charge, the retry gets the same charge, and no second one', async () => {
  const api = await rides.startApi({ env: { BACKGROUND: 'off' } })
  const key = newKey()
  const charges = (await rides.ledger()).length
  const before = await askForRide(api.url, key)
  expect(before.status).toBe(201)
  await rides.rows('DELETE FROM rides WHERE key_id = (SELECT id FROM pawl.idempotency_keys WHERE key = $1)', [
    key,
  ])
  for (const table of ['effects', 'idempotency_keys'])
    await rides.rows(`DELETE FROM pawl.${table} WHERE key = $1`, [key])
  const after = await askForRide(api.url, key)
  expect(after.status).toBe(201)
  const [one, other] = [before, after].map(({ body }) => JSON.parse(String(body)) as Record<string, unknown>)
  expect(other?.['id']).not.toBe(one?.['id'])
  expect(other?.['charge_id']).toBe(one?.['charge_id'])
  expect(await rides.ledger()).toHaveLength(charges + 1)
})
