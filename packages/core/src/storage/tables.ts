import { invalidOption, type OptionOwner } from '../check-option.js'
import { Spread } from '../driver/spread.js'
import type { Protection } from '../protection.js'

/** The framework's tables in the schema it was given, quoted and ready for SQL. */
export interface Tables {
  readonly schema: string
  readonly keys: string
  readonly effects: string
  readonly stagedJobs: string
  readonly interventions: string
  readonly scopeUsage: string
  readonly cacheEpoch: string
  readonly pipelines: string
  readonly duplicates: string
  readonly readings: string
  /** Whether they are on one server. */
  readonly spread: Spread
  /** Hides what is stored in them; null unless the user asks for it. See `sealed-values.ts`. */
  readonly protection: Protection | null
  /**
   * SQL that tells servers apart, and one server before and after a restart, by when it was started. Replicas were started at other
   * times. The servers of a cluster count as one: what writes a moment, and what reads it, may be two of them, whose clocks
   * have to agree.
   */
  readonly server: string
  /**
   * SQL for statements about rows of several scopes, which are the parameter $1, where those are in one shard: with it, Citus sends the
   * statement to that shard. On one server it would only mislead the planner. `of`: the table's alias.
   */
  readonly ofOneShard: (of: string) => string
}

export const DEFAULT_SCHEMA = 'pawl'

const STARTED =
  "floor(extract(epoch FROM timezone('UTC'::text, pg_catalog.pg_postmaster_start_time())) * 1000)::text"

/** Lower case only, so that the name means the same with and without quotes. */
const IDENTIFIER = /^[a-z_][a-z0-9_]{0,62}$/

function checkIdentifier(owner: OptionOwner, option: string, name: unknown): void {
  if (typeof name === 'string' && IDENTIFIER.test(name) && !name.startsWith('pg_')) return
  const takes = "a lower-case identifier of letters, digits and '_' that does not start with a digit or 'pg_'"
  throw invalidOption(owner, option, name, takes)
}

export function tablesIn(schema: string, where: string, protection: Protection | null = null): Tables {
  checkIdentifier({ code: 'PAWL_INVALID_OPTION', where }, 'schema', schema)
  const spread = new Spread()
  const table = (name: string) => `"${schema}"."${name}"`
  return {
    schema,
    keys: table('idempotency_keys'),
    effects: table('effects'),
    stagedJobs: table('staged_jobs'),
    interventions: table('interventions'),
    scopeUsage: table('scope_usage'),
    cacheEpoch: table('cache_epoch'),
    pipelines: table('pipelines'),
    duplicates: table('duplicates'),
    readings: table('readings'),
    spread,
    protection,
    get server() {
      return spread.overServers ? `'cluster'::text` : STARTED
    },
    ofOneShard: (of) => (spread.overServers ? ` AND ${of}.scope = ANY ($1::text[])` : ''),
  }
}
