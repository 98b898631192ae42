import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { RelayCounts } from '@pawl/core'
import { onTestFinished } from 'vitest'
import type { TestDatabase } from './test-database.js'

const RELAY_PROCESS = fileURLToPath(new URL('../fixtures/relay-process.mjs', import.meta.url))

/** Where a relay's process can be struck: around its statements, and in its sink. */
export const STRIKES = [
  'claim_jobs:before',
  'claim_jobs:after',
  'sink:before',
  'sink:half',
  'sink:after',
  'delete_jobs:before',
  'delete_jobs:after',
] as const

/** What strikes the process, and at which of its passes there. */
export interface Strike {
  readonly at: (typeof STRIKES)[number] | 'nowhere'
  readonly nth: number
  readonly signal: 'SIGKILL' | 'SIGSTOP'
}

export interface RelayProcess {
  readonly child: ChildProcess
  /** The counts of each round that claimed something. */
  readonly rounds: RelayCounts[]
  /** Resolves with the signal that killed it, once the server has noticed and its claims have run out. */
  readonly ended: Promise<string | null>
  /** Lets it drain and end. */
  readonly stop: () => void
}

/**
 * Tables outside the framework's schema: what was delivered and what was deleted, numbered in the order in which it
 * happened, and which process made which claim, so that the claims of a dead one can be distinguished from others.
 */
export async function createRelayLedger({ admin, schema, businessSchema }: TestDatabase): Promise<void> {
  await admin.query(`
    SET search_path TO ${businessSchema};
    CREATE SEQUENCE happened;
    CREATE TABLE deliveries (job_id uuid, attempt integer, nth bigint DEFAULT nextval('${businessSchema}.happened'));
    CREATE TABLE deletions (job_id uuid, nth bigint DEFAULT nextval('${businessSchema}.happened'));
    CREATE TABLE claims (claim uuid PRIMARY KEY, process text);
    CREATE FUNCTION note_deletions() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO ${businessSchema}.deletions (job_id) SELECT id FROM gone;
      RETURN NULL;
    END $$;
    CREATE FUNCTION note_claims() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO ${businessSchema}.claims
      SELECT DISTINCT claim, current_setting('application_name') FROM claimed WHERE claim_until > clock_timestamp()
          ON CONFLICT DO NOTHING;
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_deletions AFTER DELETE ON ${schema}.staged_jobs REFERENCING OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION note_deletions();
    CREATE TRIGGER note_claims AFTER UPDATE ON ${schema}.staged_jobs REFERENCING NEW TABLE AS claimed
      FOR EACH STATEMENT EXECUTE FUNCTION note_claims()`)
}

/** Lets the claims of one process run out, and nobody else's. */
async function expireClaimsOf(database: TestDatabase, applicationName: string): Promise<void> {
  await database.rows(
    `UPDATE pawl.staged_jobs SET claim_until = clock_timestamp() - interval '1 ms'
      WHERE claim_until IS NOT NULL
        AND claim IN (SELECT claim FROM ${database.businessSchema}.claims WHERE process = $1)`,
    [applicationName],
  )
}

/** A relay in its own process, on the ledger's tables. */
export function startRelayProcess(
  database: TestDatabase,
  { at, nth, signal }: Strike,
  { batchSize = 100, maxAttempts = 1_000 } = {},
): RelayProcess {
  const { url, schema, businessSchema } = database
  const applicationName = `relay_${randomUUID()}`
  const options = { url, schema, businessSchema, applicationName, batchSize, maxAttempts, at, nth, signal }
  const child = fork(RELAY_PROCESS, [JSON.stringify(options)])
  onTestFinished(() => void child.kill('SIGKILL'))
  const rounds: RelayCounts[] = []
  child.on('message', (counts) => void rounds.push(counts as RelayCounts))
  const end = async (): Promise<string | null> => {
    const [, killedBy] = (await once(child, 'close')) as [number | null, string | null]
    await database.backendsGone(applicationName)
    await expireClaimsOf(database, applicationName)
    return killedBy
  }
  return { child, rounds, ended: end(), stop: () => void (child.connected && child.send('stop')) }
}
