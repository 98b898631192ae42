import { POINT_TEXT } from '../../keys/point-text.js'
import type { Tables } from '../../tables.js'

/**
 * What background services and operators need in addition. The view is for people who have only psql: no bodies, no
 * inputs, and words instead of nulls.
 */
export const operations = ({ schema, keys, stagedJobs, interventions }: Tables): string => `
ALTER TABLE ${keys} ADD COLUMN unstuck_at timestamptz;
COMMENT ON COLUMN ${keys}.unstuck_at IS 'When a person last pushed the key on; its age is counted from here.';

CREATE INDEX staged_jobs_dead ON ${stagedJobs} (dead_at) WHERE dead_at IS NOT NULL;
CREATE INDEX staged_jobs_dead_by_key ON ${stagedJobs} (key_id) WHERE dead_at IS NOT NULL;
COMMENT ON COLUMN ${stagedJobs}.attempts IS 'Deliveries that were begun.';
CREATE INDEX interventions_by_time ON ${interventions} (created_at);

CREATE VIEW "${schema}"."keys" AS
SELECT k.scope, k.key, k.pipeline, k.kind, k.version, k.recovery_point, ${POINT_TEXT} AS point,
       CASE WHEN k.status <> 'running' THEN k.status
            WHEN k.lease_until > clock_timestamp() THEN 'held'
            WHEN k.run_after > clock_timestamp() THEN 'backing off'
            ELSE 'unattended' END AS condition,
       k.stuck_reason, k.fence, k.attempts, k.retries, k.lease_until, k.run_after,
       k.intent ->> 'phase' AS call_phase,
       CASE k.intent ->> 'kind' WHEN 'calling' THEN 'may have been made' WHEN 'called' THEN 'returned'
            WHEN 'not_made' THEN 'not made' END AS call_known,
       k.last_error, k.response_status, clock_timestamp() - k.created_at AS age, k.created_at, k.updated_at,
       k.expires_at, k.id
  FROM ${keys} AS k;
COMMENT ON VIEW "${schema}"."keys" IS 'The keys as a person reads them: condition says who has to act. Without inputs, states and bodies.';
`
