import { type JobToStage, type JsonValue, PawlError, type Stager } from '@pawl/core'
import {
  checkKnownOptions,
  checkOptionalFunction,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import { sql } from 'kysely'
import { checkJobOptions, type GraphileJobOptions } from './job-options.js'

export interface GraphileStagerOptions {
  /** The schema that graphile-worker is installed in. Default `graphile_worker`. */
  readonly schema?: string
  /**
   * What to tell graphile-worker about a job that a phase stages. Default: nothing.
   *
   * @example
   * jobOptions: ({ name }) => (name === 'send_receipt' ? { queueName: 'mail', maxAttempts: 5 } : {})
   */
  readonly jobOptions?: (job: { readonly name: string; readonly payload: JsonValue }) => GraphileJobOptions
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'graphileStager' }
const DEFAULT_SCHEMA = 'graphile_worker'
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/
/** The longest name that graphile-worker's table of tasks accepts, in characters. */
const MAX_NAME_LENGTH = 128

/**
 * Adds staged jobs to graphile-worker in the phase's own transaction: a job exists exactly when its phase has committed.
 * The staged job's id becomes graphile-worker's job key.
 *
 * @example
 * const engine = createEngine({ pool, pipelines: [createRide], stager: graphileStager() })
 */
export function graphileStager<DB>(options: GraphileStagerOptions = {}): Stager<DB> {
  checkKnownOptions(OWNER, options, ['schema', 'jobOptions'])
  checkOptionalFunction(OWNER, 'jobOptions', options.jobOptions)
  const { schema = DEFAULT_SCHEMA, jobOptions } = options
  if (typeof schema !== 'string' || !IDENTIFIER.test(schema))
    throw invalidOption(OWNER, 'schema', schema, 'the name of a schema')
  // Not a Kysely identifier: a plugin that renames the application's tables must not rename this.
  const addJob = sql.raw(`"${schema}".add_job`)
  return {
    async stage({ tx, id, name, payload, runAfterMs }: JobToStage<DB>): Promise<void> {
      const owner: OptionOwner = { ...OWNER, where: `graphileStager, job '${name}'` }
      if (name.length > MAX_NAME_LENGTH)
        throw invalidOption(owner, 'name', name, `1 to ${MAX_NAME_LENGTH} characters`)
      const given = jobOptions?.({ name, payload }) ?? {}
      const { queueName, maxAttempts, priority, flags } = checkJobOptions(owner, given)
      // The function always returns one row, which is empty where a trigger, say, kept the job out of the table.
      // Everything is qualified with its schema, so that nothing on the search path can take its place.
      const { rows } = await sql`
        SELECT 1 FROM ${addJob}(
          identifier => ${name}::pg_catalog.text,
          payload => ${JSON.stringify(payload)}::pg_catalog.json,
          queue_name => ${queueName ?? null}::pg_catalog.text,
          run_at => pg_catalog.now() OPERATOR(pg_catalog.+)
                    (${runAfterMs}::double precision OPERATOR(pg_catalog.*) interval '1 millisecond'),
          max_attempts => ${maxAttempts ?? null}::integer,
          job_key => ${id}::pg_catalog.text,
          priority => ${priority ?? null}::integer,
          flags => ${flags === undefined ? null : [...flags]}::pg_catalog.text[]) AS job
         WHERE job.id IS NOT NULL`
        .execute(tx)
        .catch((error: unknown) => {
          throw isMissing(error) ? notInstalled(schema, error) : error
        })
      if (rows.length !== 1)
        throw new PawlError('PAWL_INVALID_RESULT', `graphile-worker did not take job '${name}'.`)
    },
  }
}

/** No such schema, no such function. */
const MISSING_STATES = new Set(['3F000', '42883'])

function isMissing(error: unknown): boolean {
  return MISSING_STATES.has(String((error as { readonly code?: unknown } | null)?.code))
}

function notInstalled(schema: string, cause: unknown): PawlError {
  return new PawlError(
    'PAWL_NOT_MIGRATED',
    `graphile-worker's add_job is not in schema '${schema}'. Run its migrations (runMigrations of graphile-worker) ` +
      `before the first request, or name the schema that it is installed in: graphileStager({ schema }).`,
    { cause },
  )
}
