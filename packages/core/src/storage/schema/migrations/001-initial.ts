import type { Tables } from '../../tables.js'

/**
 * fillfactor: an advance updates its row in place (HOT) as long as the page has room, so leave some. No advance changes a
 * column of an index or of an index's condition, which HOT needs as well. json, not jsonb: what goes in comes out byte
 * for byte, and NUL or a lone surrogate is not an error after a charge. Collation "C": keys are compared as bytes, and
 * faster.
 */
export const initial = ({ schema, keys, effects, stagedJobs }: Tables): string => `
CREATE TABLE ${keys} (
  id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  scope               text COLLATE "C" NOT NULL CHECK (char_length(scope) BETWEEN 1 AND 255),
  key                 text COLLATE "C" NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
  pipeline            text COLLATE "C" NOT NULL CHECK (char_length(pipeline) BETWEEN 1 AND 63),
  kind                text COLLATE "C" NOT NULL DEFAULT 'pipeline',
  version             integer NOT NULL CHECK (version > 0),
  definition_hash     text COLLATE "C" NOT NULL CHECK (char_length(definition_hash) = 16),
  fingerprint         bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  fingerprint_version smallint NOT NULL CHECK (fingerprint_version > 0),
  input               json NOT NULL,
  state               json NOT NULL DEFAULT '{}',
  recovery_point      text COLLATE "C" NOT NULL DEFAULT 'started' CHECK (char_length(recovery_point) BETWEEN 1 AND 63),
  status              text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'finished', 'stuck')),
  stuck_reason        text COLLATE "C" CHECK (char_length(stuck_reason) <= 63),
  fence               bigint NOT NULL DEFAULT 1 CHECK (fence > 0),
  holder              uuid NOT NULL,
  lease_until         timestamptz,
  attempts            integer NOT NULL DEFAULT 1 CHECK (attempts >= 0),
  retries             integer NOT NULL DEFAULT 0 CHECK (retries >= 0),
  run_after           timestamptz,
  intent              json,
  effect_epoch        integer NOT NULL DEFAULT 0 CHECK (effect_epoch >= 0),
  last_error          text CHECK (char_length(last_error) <= 2000),
  trail               jsonb NOT NULL DEFAULT '[]',
  response_status     smallint CHECK (response_status BETWEEN 200 AND 599),
  response_headers    json,
  response_body       bytea,
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at          timestamptz,
  UNIQUE (scope, key),
  CHECK ((status = 'finished') = (recovery_point = 'finished')),
  CHECK ((status = 'finished') = (response_status IS NOT NULL AND response_headers IS NOT NULL
                                  AND response_body IS NOT NULL AND expires_at IS NOT NULL)),
  CHECK ((status = 'stuck') = (stuck_reason IS NOT NULL)),
  CHECK (status = 'running' OR lease_until IS NULL)
) WITH (fillfactor = 70);
CREATE INDEX idempotency_keys_running ON ${keys} (pipeline, version, created_at) WHERE status = 'running';
CREATE INDEX idempotency_keys_stuck ON ${keys} (pipeline, version, created_at) WHERE status = 'stuck';
CREATE INDEX idempotency_keys_finished ON ${keys} (expires_at) WHERE status = 'finished';

CREATE TABLE ${effects} (
  id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  key_id       uuid NOT NULL,
  scope        text COLLATE "C" NOT NULL,
  key          text COLLATE "C" NOT NULL,
  pipeline     text COLLATE "C" NOT NULL,
  version      integer NOT NULL,
  fence        bigint NOT NULL,
  phase        text COLLATE "C" NOT NULL,
  effect       text COLLATE "C" NOT NULL,
  provider_key text COLLATE "C" NOT NULL,
  reference    text,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX effects_by_key ON ${effects} (scope, key);
CREATE INDEX effects_by_time ON ${effects} (created_at);

CREATE TABLE ${stagedJobs} (
  id          uuid PRIMARY KEY,
  seq         bigint GENERATED ALWAYS AS IDENTITY,
  name        text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
  payload     json NOT NULL,
  key_id      uuid NOT NULL,
  run_after   timestamptz NOT NULL DEFAULT clock_timestamp(),
  attempts    integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  claim       uuid,
  claim_until timestamptz,
  last_error  text CHECK (char_length(last_error) <= 2000),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  dead_at     timestamptz
);
CREATE INDEX staged_jobs_waiting ON ${stagedJobs} (run_after) WHERE dead_at IS NULL;
CREATE INDEX staged_jobs_by_key ON ${stagedJobs} (key_id, seq) WHERE dead_at IS NULL;

CREATE TABLE "${schema}"."interventions" (
  id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  key_id     uuid,
  scope      text COLLATE "C",
  key        text COLLATE "C",
  action     text NOT NULL CHECK (char_length(action) BETWEEN 1 AND 63),
  actor      text NOT NULL,
  reason     text,
  detail     json,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX interventions_by_key ON "${schema}"."interventions" (key_id);
${comments(schema)}`

const COMMENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  idempotency_keys: {
    '': 'One row per request, found by its scope and Idempotency-Key: how far it came, who runs it, what it answered.',
    id: 'Identity of the row. Business rows may refer to it with ON DELETE SET NULL.',
    scope: 'The authenticated principal that owns the key.',
    key: "The client's Idempotency-Key, unique within the scope.",
    pipeline: 'Name of the pipeline that runs the request.',
    kind: 'pipeline: one that engines register, and a completer may go on with; atomic: an atomic handler, which only a request of its client can run.',
    version: 'Version of the pipeline the row is pinned to.',
    definition_hash:
      'Hash of the definition the row is pinned to: a changed definition under the same version is refused.',
    fingerprint: 'SHA-256 of the canonical request: another request under the same key is a mismatch.',
    fingerprint_version: 'How the fingerprint was computed.',
    input: 'The validated input, exactly as the phases see it.',
    state: 'What phases returned, merged, for later phases.',
    recovery_point:
      'Name of the last phase that committed; started before the first, finished once a response is stored.',
    status: 'running, finished, or stuck (a person decides).',
    stuck_reason: 'Why the key is stuck.',
    fence: 'Grows by one at every grant of the lease; every write of a holder is conditional on it.',
    holder: 'Random identity of the grant: tells apart two grants of one fence after a lossy failover.',
    lease_until: "Until when the holder may run, on this database's clock; null when nobody holds the key.",
    attempts: 'Grants since the last advance that crashed or met an unknown error.',
    retries: 'Times it was given back in order since the last advance; they lengthen the back-off.',
    run_after: 'Back-off: no automatic attempt before this moment.',
    intent:
      'What was said of a call before it was settled: that it may have been made, what it returned, or that it was not made.',
    effect_epoch: 'Part of the provider key; raised when the provider is known not to have executed.',
    last_error: 'The last error, redacted and shortened.',
    trail: 'Recovery points reached: p which, t when (ms), f under which fence, s skipped.',
    response_status: 'Status of the stored response.',
    response_headers: 'Headers of the stored response.',
    response_body: 'Body of the stored response, byte for byte.',
    created_at: 'When the key was reserved.',
    updated_at: 'When the row was last written, renewals of the lease aside.',
    expires_at: 'When a finished key may be deleted, counted from its finish.',
  },
  effects: {
    '': 'One row per settled foreign effect, for reconciliation with the provider; kept longer than the key.',
    id: 'Identity of the row.',
    key_id: 'The key of the request. No foreign key: effects outlive keys.',
    scope: 'Scope of the key.',
    key: 'The Idempotency-Key.',
    pipeline: 'Pipeline that had the effect.',
    version: 'Version of the pipeline.',
    fence: 'Fence under which the effect was settled.',
    phase: 'Phase that had the effect.',
    effect: 'Effect name: the part of the provider key that survives a rename of the phase.',
    provider_key: 'The idempotency key that was sent to the provider.',
    reference: "The provider's own name for the effect.",
    created_at: 'When the effect was settled.',
  },
  staged_jobs: {
    '': 'Jobs written in the transaction of the phase that staged them, to be handed to a queue afterwards.',
    id: 'Stable identity of the job, the same at every delivery.',
    seq: 'Order of staging.',
    name: 'Name of the job.',
    payload: 'Payload of the job.',
    key_id: 'The key whose phase staged the job. No foreign key: jobs outlive keys.',
    run_after: 'Not to be delivered before this moment.',
    attempts: 'Deliveries that failed.',
    claim: 'Who is delivering the job, or last did.',
    claim_until: 'Until when that claim holds.',
    last_error: 'The last error of a delivery, redacted and shortened.',
    created_at: 'When the job was staged.',
    dead_at: 'When the job was given up; null while it is to be delivered.',
  },
  interventions: {
    '': 'What operators did to keys and jobs.',
    id: 'Identity of the row.',
    key_id: 'The key that was steered.',
    scope: 'Scope of the key.',
    key: 'The Idempotency-Key.',
    action: 'What was done.',
    actor: 'Who did it.',
    reason: 'Why.',
    detail: 'What it was before, and what was given.',
    created_at: 'When.',
  },
}

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`

function comments(schema: string): string {
  return Object.entries(COMMENTS)
    .flatMap(([table, texts]) =>
      Object.entries(texts).map(([column, text]) =>
        column === ''
          ? `COMMENT ON TABLE "${schema}"."${table}" IS ${quote(text)};`
          : `COMMENT ON COLUMN "${schema}"."${table}"."${column}" IS ${quote(text)};`,
      ),
    )
    .join('\n')
}
