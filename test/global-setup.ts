import { startPostgres } from '@pawl/dev-postgres'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The database of this test run; every test makes a schema of its own in it. */
    databaseUrl: string
  }
}

/** Gives all tests one PostgreSQL: the caller's, if DATABASE_URL names one, else a new one that ends with the run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env['DATABASE_URL']
  if (given) {
    project.provide('databaseUrl', given)
    return async () => {}
  }
  const postgres = await startPostgres()
  project.provide('databaseUrl', postgres.url)
  return () => postgres.stop()
}
