import { invalidOption, type OptionOwner } from '../check-option.js'

/** The framework's tables in the schema it was given, quoted and ready for SQL. */
export interface Tables {
  readonly schema: string
  readonly keys: string
  readonly effects: string
  readonly stagedJobs: string
  readonly interventions: string
}

export const DEFAULT_SCHEMA = 'pawl'

/** Lower case only, so that the name means the same with and without quotes. */
const IDENTIFIER = /^[a-z_][a-z0-9_]{0,62}$/

function checkIdentifier(owner: OptionOwner, option: string, name: unknown): void {
  if (typeof name === 'string' && IDENTIFIER.test(name) && !name.startsWith('pg_')) return
  const takes = "a lower-case identifier of letters, digits and '_' that does not start with a digit or 'pg_'"
  throw invalidOption(owner, option, name, takes)
}

export function tablesIn(schema: string, where: string): Tables {
  checkIdentifier({ code: 'PAWL_INVALID_OPTION', where }, 'schema', schema)
  const table = (name: string) => `"${schema}"."${name}"`
  return {
    schema,
    keys: table('idempotency_keys'),
    effects: table('effects'),
    stagedJobs: table('staged_jobs'),
    interventions: table('interventions'),
  }
}
