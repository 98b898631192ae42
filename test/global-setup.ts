import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startPostgres } from '@pawl/dev-postgres'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The database of this test run; every test makes a schema of its own in it. */
    databaseUrl: string
    /** The payments provider's stand-in, a process of its own; every test has an account of its own there. */
    providerUrl: string
  }
}

/** Gives all tests one PostgreSQL (the caller's, if DATABASE_URL names one) and one payments provider. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const provider = fork(fileURLToPath(new URL('support/provider-process.mjs', import.meta.url)))
  const [message] = (await once(provider, 'message')) as [{ url: string }]
  project.provide('providerUrl', message.url)

  const given = process.env['DATABASE_URL']
  const postgres = given ? null : await startPostgres()
  project.provide('databaseUrl', postgres?.url ?? (given as string))
  return async () => {
    provider.disconnect()
    await postgres?.stop()
  }
}
