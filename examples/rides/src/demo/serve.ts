import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Story } from './story.js'
import { World } from './world.js'

/** What is handed on to the service, if it is set. A demo that hides nothing although it was given a key would mislead. */
const HANDED_ON = [
  'AFTER_EXPIRY',
  'LEASE_MS',
  'LIMIT_NEW_PER_MINUTE',
  'LIMIT_UNFINISHED',
  'METRICS_PORT',
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'PROTECT_KEY',
  'REDIS_URL',
  'RETENTION_MS',
  'WAITERS_PER_SCOPE',
  'WIPE',
]
const env = Object.fromEntries(
  HANDED_ON.map((name) => [name, process.env[name] ?? '']).filter(([, value]) => value !== ''),
) as Record<string, string>

/** As many as a random token of the console's own has. */
const TOKEN_BYTES = 32

/** The service with everything that it needs, ready for curl, until Ctrl-C. `PORT` and `HOST` are the API's. */
const story = new Story(false)
const world = await World.create()
try {
  const { PORT: port = '3000', HOST: host = '127.0.0.1' } = process.env
  await world.startWorker(env)
  // Any port that is free, and a token that nobody knows who was not shown the address below.
  const consoleToken = process.env['CONSOLE_TOKEN'] || randomBytes(TOKEN_BYTES).toString('base64url')
  const watching = { CONSOLE_PORT: process.env['CONSOLE_PORT'] || '0', CONSOLE_TOKEN: consoleToken }
  const api = await world.startApi({ name: 'api', port, host, leaseMs: null, env: { ...env, ...watching } })
  story.say(`
The API is at ${api.url}, PostgreSQL at ${world.databaseUrl},
the payments stand-in at ${world.standIn.url}. Logs, ledger and receipts are in ${world.folder}

  curl -i ${api.url}/rides -H 'authorization: Bearer rider-1' -H 'idempotency-key: my-first-ride' \\
    --json '{"origin_lat":37.77,"origin_lon":-122.42,"target_lat":37.62,"target_lon":-122.38}'

Send it again: the same answer, and no second charge (${world.standIn.url}/ledger). What an operator sees of it,
in the browser and on the command line:

  ${api.consoleUrl}/enter/${consoleToken}
  DATABASE_URL='${world.databaseUrl}' node packages/cli/bin/pawl.js list --status finished

Ctrl-C ends everything.`)
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM'), api.exited])
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  await world.end(process.exitCode === 1)
}
