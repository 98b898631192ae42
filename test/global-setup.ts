import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startPostgres } from '@pawl/dev-postgres'
import pg from 'pg'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The database of this test run; every test creates its own schema in it. */
    databaseUrl: string
    /** Part of the name of every schema that this test run creates there. */
    testRun: string
    /** The payments provider's stand-in, a separate process; every test has its own account there. */
    providerUrl: string
  }
}

/** Engines of several files are busy at once, and one that got no connection would answer that the store is away. */
const SETTINGS = { max_connections: '500' }

/** Gives all tests one PostgreSQL (the caller's, if DATABASE_URL names one) and one payments provider. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const provider = fork(fileURLToPath(new URL('support/provider-process.mjs', import.meta.url)))
  const [message] = (await once(provider, 'message')) as [{ url: string }]
  project.provide('providerUrl', message.url)

  const given = process.env['DATABASE_URL']
  const postgres = given ? null : await startPostgres({ settings: SETTINGS })
  project.provide('databaseUrl', postgres?.url ?? (given as string))
  const testRun = randomBytes(4).toString('hex')
  project.provide('testRun', testRun)
  return async () => {
    provider.disconnect()
    if (postgres === null) await dropSchemas(given as string, testRun)
    await postgres?.stop()
  }
}

/** Tests reuse schemas, and none of them knows whether it is the last to do so. */
async function dropSchemas(url: string, testRun: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    `SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)`,
    [`t_${testRun}_`],
  )
  // One by one, because all together need more locks than a server has room for.
  for (const { name } of rows) await client.query(`DROP SCHEMA ${name} CASCADE`)
  await client.end()
}
