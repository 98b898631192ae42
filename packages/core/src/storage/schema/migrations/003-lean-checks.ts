import type { Tables } from '../../tables.js'

/** The server reads the text of every check on a table each time a statement writes to it: half the cost of an advance. */
const DEAR = {
  keys: [
    'scope_check',
    'key_check',
    'pipeline_check',
    'version_check',
    'definition_hash_check',
    'fingerprint_check',
    'fingerprint_version_check',
    'recovery_point_check',
    'status_check',
    'stuck_reason_check',
    'fence_check',
    'attempts_check',
    'retries_check',
    'effect_epoch_check',
    'last_error_check',
    'response_status_check',
    'check',
    'check1',
    'check2',
    'check3',
  ],
  stagedJobs: ['name_check', 'attempts_check', 'last_error_check'],
}

const drop = (table: string, name: string, checks: readonly string[]): string =>
  `ALTER TABLE ${table}\n${checks.map((check) => `  DROP CONSTRAINT IF EXISTS ${name}_${check}`).join(',\n')};`

/**
 * One check in place of twenty, for what would mislead whoever reads the row. Lengths and ranges are checked before a row
 * is written.
 */
export const leanChecks = ({ keys, stagedJobs }: Tables): string => `
${drop(keys, 'idempotency_keys', DEAR.keys)}
${drop(stagedJobs, 'staged_jobs', DEAR.stagedJobs)}
ALTER TABLE ${keys} ADD CONSTRAINT idempotency_keys_answered
  CHECK ((status = 'finished') = (response_body IS NOT NULL)) NOT VALID;
`
