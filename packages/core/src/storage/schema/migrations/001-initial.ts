import { POINT_TEXT } from '../../keys/point-text.js'
import type { Layout } from '../layout.js'
import type { Tables } from '../../tables.js'

/**
 * fillfactor: an advance updates its row in place (HOT) as long as the page has room, so leave some. No advance changes a
 * column of an index or of an index's condition, which HOT needs as well. The order of the columns: PostgreSQL logs what
 * an update changes from its first changed byte to its last, so what never changes comes first. json, not jsonb: what goes
 * in comes out byte for byte, and NUL or a lone surrogate is not an error after a charge. Collation "C": keys are compared
 * as bytes, and faster. No checks and no generated columns: the server reads and compiles the text of each at every
 * statement that writes to the table. One check was a quarter of the cost of an advance. What is written is checked before. Ids are
 * made by engines and grow with time, so that an index on them is appended to; the defaults are for people who insert a row
 * by hand.
 */
export const initial = (
  {
    schema,
    keys,
    effects,
    stagedJobs,
    interventions,
    scopeUsage,
    cacheEpoch,
    pipelines,
    duplicates,
    readings,
  }: Tables,
  layout: Layout,
): string => `
CREATE TABLE ${keys} (
  id                  uuid NOT NULL DEFAULT gen_random_uuid(),
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  scope               text COLLATE "C" NOT NULL,
  key                 text COLLATE "C" NOT NULL,
  pipeline            text COLLATE "C" NOT NULL,
  kind                text COLLATE "C" NOT NULL DEFAULT 'pipeline',
  fingerprint         bytea NOT NULL,
  fingerprint_version smallint NOT NULL,
  input               json NOT NULL,
  definition_hash     text COLLATE "C" NOT NULL,
  version             integer NOT NULL,
  undone_before       integer NOT NULL DEFAULT 0,
  effect_epoch        integer NOT NULL DEFAULT 0,
  fence               bigint NOT NULL DEFAULT 1,
  holder              uuid NOT NULL,
  unstuck_at          timestamptz,
  run_after           timestamptz,
  stuck_reason        text COLLATE "C",
  last_error          text,
  traceparent         text COLLATE "C",
  intent              json,
  attempts            integer NOT NULL DEFAULT 1,
  retries             integer NOT NULL DEFAULT 0,
  stored_bytes        bigint NOT NULL DEFAULT 0,
  revision            bigint NOT NULL DEFAULT 1,
  updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  lease_until         timestamptz,
  expires_at          timestamptz,
  response_status     smallint,
  status              text COLLATE "C" NOT NULL DEFAULT 'running',
  recovery_point      text COLLATE "C" NOT NULL DEFAULT 'started',
  state               json NOT NULL DEFAULT '{}',
  trail               json NOT NULL DEFAULT '[]',
  response_headers    json,
  response_body       bytea,
  PRIMARY KEY ${isDivided(layout) ? '(id, scope)' : '(id)'},
  UNIQUE (scope, key)
)${divided(layout, 'idempotency_keys', schema, FILL)};
CREATE INDEX idempotency_keys_running ON ${keys} (pipeline, version, created_at) WHERE status = 'running';
CREATE INDEX idempotency_keys_stuck ON ${keys} (pipeline, version, created_at) WHERE status = 'stuck';
CREATE INDEX idempotency_keys_unfinished ON ${keys} (scope, created_at) WHERE status <> 'finished';
CREATE INDEX idempotency_keys_finished ON ${keys} (expires_at) WHERE status = 'finished';

CREATE TABLE ${effects} (
  id           uuid NOT NULL DEFAULT gen_random_uuid(),
  key_id       uuid NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  fence        bigint NOT NULL,
  version      integer NOT NULL,
  scope        text COLLATE "C" NOT NULL,
  key          text COLLATE "C" NOT NULL,
  pipeline     text COLLATE "C" NOT NULL,
  phase        text COLLATE "C" NOT NULL,
  effect       text COLLATE "C" NOT NULL,
  provider_key text COLLATE "C" NOT NULL,
  reference    text,
  undone_at    timestamptz,
  PRIMARY KEY (scope, key, id)
)${divided(layout, 'effects', schema)};
CREATE INDEX effects_by_time ON ${effects} (created_at);

CREATE TABLE ${stagedJobs} (
  id          uuid NOT NULL,
  key_id      uuid NOT NULL,
  seq         bigint NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  run_after   timestamptz NOT NULL DEFAULT clock_timestamp(),
  attempts    integer NOT NULL DEFAULT 0,
  scope       text COLLATE "C" NOT NULL,
  name        text NOT NULL,
  payload     json NOT NULL,
  claim       uuid,
  claim_until timestamptz,
  last_error  text,
  traceparent text COLLATE "C",
  dead_at     timestamptz,
  PRIMARY KEY ${isDivided(layout) ? '(key_id, seq, scope)' : '(key_id, seq)'}
)${divided(layout, 'staged_jobs', schema)};
CREATE INDEX staged_jobs_waiting ON ${stagedJobs} (run_after) WHERE dead_at IS NULL;
CREATE INDEX staged_jobs_by_scope ON ${stagedJobs} (scope, run_after) WHERE dead_at IS NULL;
CREATE INDEX staged_jobs_dead ON ${stagedJobs} (dead_at) WHERE dead_at IS NOT NULL;
CREATE INDEX staged_jobs_dead_by_id ON ${stagedJobs} (id) WHERE dead_at IS NOT NULL;

CREATE TABLE ${interventions} (
  id         uuid NOT NULL DEFAULT gen_random_uuid(),
  key_id     uuid,
  scope      text COLLATE "C" NOT NULL DEFAULT '',
  key        text COLLATE "C",
  action     text NOT NULL CHECK (char_length(action) BETWEEN 1 AND 63),
  actor      text NOT NULL,
  reason     text,
  detail     json,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (scope, id)
);
CREATE INDEX interventions_by_key ON ${interventions} (scope, key_id);
CREATE INDEX interventions_by_time ON ${interventions} (created_at);

CREATE TABLE ${scopeUsage} (
  scope       text COLLATE "C" NOT NULL,
  kind        text COLLATE "C" NOT NULL,
  pipeline    text COLLATE "C" NOT NULL DEFAULT '',
  part        integer NOT NULL DEFAULT 0,
  tokens      double precision,
  refilled_at timestamptz,
  per_ms      double precision,
  bytes       bigint,
  PRIMARY KEY (scope, kind, pipeline, part)
) WITH (fillfactor = 50);
CREATE TABLE ${cacheEpoch} (
  id     smallint NOT NULL DEFAULT 1,
  secret text COLLATE "C" NOT NULL,
  epoch  uuid NOT NULL,
  cached boolean NOT NULL DEFAULT false,
  PRIMARY KEY (id)
);
CREATE TABLE ${pipelines} (
  pipeline        text COLLATE "C" NOT NULL,
  version         integer NOT NULL,
  definition_hash text COLLATE "C" NOT NULL,
  kind            text COLLATE "C" NOT NULL DEFAULT 'pipeline',
  description     json NOT NULL,
  recorded_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (pipeline, version, definition_hash)
);
CREATE TABLE ${duplicates} (
  scope      text COLLATE "C" NOT NULL,
  minute     timestamptz NOT NULL,
  pipeline   text COLLATE "C" NOT NULL,
  replayed   bigint NOT NULL DEFAULT 0,
  in_flight  bigint NOT NULL DEFAULT 0,
  mismatched bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, minute, pipeline)
);
CREATE INDEX duplicates_by_minute ON ${duplicates} (minute);
CREATE TABLE ${readings} (
  id       smallint NOT NULL DEFAULT 1,
  taken_at timestamptz NOT NULL,
  reading  json,
  PRIMARY KEY (id)
);
${distributed(layout, schema)}${view(schema, keys)}${comments(schema)}`

const FILL = ' WITH (fillfactor = 70)'

/** A unique index of a table that is divided has to contain the column that it is divided by. */
const isDivided = ({ kind }: Layout): boolean => kind !== 'plain'

/** What follows the columns of a table: how it is divided, and its partitions. */
function divided(layout: Layout, table: string, schema: string, storage = ''): string {
  if (layout.kind !== 'partitioned') return storage
  const partitions = Array.from(
    { length: layout.partitions },
    (_, nth) => `CREATE TABLE "${schema}"."${table}_${nth}" PARTITION OF "${schema}"."${table}"
  FOR VALUES WITH (MODULUS ${layout.partitions}, REMAINDER ${nth})${storage}`,
  )
  return [' PARTITION BY HASH (scope)', ...partitions].join(';\n')
}

/**
 * Distributed together, so that all rows of a scope are on one server. A group of their own: other tables join it only if they
 * are told to. The history and the epoch are on every server, because a client may connect to any of them.
 */
function distributed(layout: Layout, schema: string): string {
  if (layout.kind !== 'citus') return ''
  const [first, ...others] = [
    'idempotency_keys',
    'effects',
    'staged_jobs',
    'interventions',
    'scope_usage',
    'duplicates',
  ]
  const distribute = (table: string | undefined, how: string): string =>
    `SELECT create_distributed_table('"${schema}"."${table}"', 'scope', ${how});`
  return [
    '',
    distribute(first, `colocate_with => 'none', shard_count => ${layout.shards}`),
    ...others.map((table) => distribute(table, `colocate_with => '"${schema}"."${first}"'`)),
    `SELECT create_reference_table('"${schema}"."migrations"');`,
    `SELECT create_reference_table('"${schema}"."cache_epoch"');`,
    `SELECT create_reference_table('"${schema}"."pipelines"');`,
    `SELECT create_reference_table('"${schema}"."readings"');`,
  ].join('\n')
}

/** For people who have only psql: no bodies, no inputs, and words instead of nulls. */
const view = (schema: string, keys: string): string => `
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
COMMENT ON VIEW "${schema}"."keys" IS 'The keys as a person reads them; condition says who has to act. Inputs, states and bodies are left out.';
`

const COMMENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  idempotency_keys: {
    '': 'One row per request, found by its scope and Idempotency-Key: how far it came, who runs it, what it answered.',
    id: 'Identity of the row. Business rows may refer to it with ON DELETE SET NULL.',
    scope: 'The authenticated principal that owns the key.',
    key: "The client's Idempotency-Key, unique within the scope.",
    pipeline: 'Name of the pipeline that runs the request.',
    kind: 'pipeline: one that engines register and a completer may resume; atomic: an atomic handler, which only a request of its client can run.',
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
    holder:
      'Random identity of the grant: distinguishes two grants with the same fence after a failover that lost commits.',
    lease_until: "Until when the holder may run, on this database's clock; null when nobody holds the key.",
    attempts: 'Grants since the last advance that crashed or met an unknown error.',
    retries:
      'Times the key was given back in an orderly way since the last advance; they lengthen the back-off.',
    run_after: 'Back-off: no automatic attempt before this moment.',
    intent:
      'What is known of a call that is not settled: that it may have been made, what it returned, or that it was not made.',
    revision: 'Grows by one at every write of the row: whoever has read it can tell that it has changed.',
    stored_bytes: 'What is counted of the row in scope_usage; 0 where that is not limited.',
    unstuck_at: 'When a person last unstuck the key; its age is counted from here.',
    undone_before:
      'Part of the provider key: how many effects of earlier requests under this name had been undone.',
    effect_epoch:
      'Part of the provider key; raised when the provider is known not to have executed the call.',
    last_error: 'The last error, redacted and shortened.',
    traceparent:
      'The W3C trace context of the first attempt: the traces of later ones link to it. Null without tracing.',
    trail:
      'Recovery points reached: p the point, t when (ms), f under which fence, s whether it was skipped.',
    response_status: 'Status of the stored response.',
    response_headers: 'Headers of the stored response.',
    response_body: 'Body of the stored response, byte for byte.',
    created_at: 'When the key was reserved.',
    updated_at: 'When the row was last written, not counting renewals of the lease.',
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
    undone_at:
      'When an operator said that the effect was undone; null otherwise. A deleted key whose effects were all undone may run again.',
    created_at: 'When the effect was settled.',
  },
  staged_jobs: {
    '': 'Jobs written in the transaction of the phase that staged them, to be handed to a queue afterwards.',
    id: 'Stable identity of the job, the same at every delivery.',
    scope: 'Scope of the key.',
    seq: 'Order of staging among the jobs of its key.',
    name: 'Name of the job.',
    payload: 'Payload of the job.',
    key_id: 'The key whose phase staged the job. No foreign key: jobs outlive keys.',
    run_after: 'The job is not delivered before this moment.',
    attempts: 'Deliveries that were begun.',
    claim: 'Who is delivering the job, or last did.',
    claim_until: 'Until when that claim holds.',
    last_error: 'The last error of a delivery, redacted and shortened.',
    traceparent: 'That of the key whose phase staged the job.',
    created_at: 'When the job was staged.',
    dead_at: 'When the job was given up; null while it is to be delivered.',
  },
  interventions: {
    '': 'What operators did to keys and jobs.',
    id: 'Identity of the row.',
    key_id: 'The key that was steered.',
    scope: 'Scope of the key; empty for what is about no single key.',
    key: 'The Idempotency-Key.',
    action: 'What was done.',
    actor: 'Who did it.',
    reason: 'Why.',
    detail: 'What the row was before, and what the operator passed.',
    created_at: 'When.',
  },
  scope_usage: {
    '': 'How much of its limits a scope has used. Without limits, it is empty.',
    scope: 'The scope that is limited.',
    kind: 'new_keys and lookups: a bucket of tokens; stored_bytes: what keys take that are stored.',
    pipeline: 'The pipeline that is limited, or whose keys are counted; empty for all of them.',
    part: 'Bytes are counted in several rows, whose sum counts.',
    tokens: 'How many tokens there were at refilled_at.',
    refilled_at: 'When tokens were last reckoned.',
    per_ms: 'How long it takes to fill the bucket.',
    bytes: 'What is counted in this part: the sum of all is the sum of stored_bytes of the keys.',
  },
  cache_epoch: {
    '': 'One row: what copies of keys in a cache have to be written under. Delete it in the transaction that deletes finished keys by hand.',
    id: 'Always 1.',
    secret: 'Names and signs what is cached.',
    epoch: 'Another one after each change that the cache does not know of.',
    cached: 'Whether an engine with a cache has ever asked for it.',
  },
  pipelines: {
    '': 'One row per definition that an engine was started with, so that tools without its code can draw and explain it.',
    pipeline: 'Name of the pipeline.',
    version: 'Its version.',
    definition_hash: 'Hash of its definition, as in idempotency_keys.',
    kind: 'pipeline, or atomic: an atomic handler.',
    description: 'Phases in order, their guarantees, and the settings that decide what a resume does.',
    recorded_at: 'When an engine last recorded it.',
  },
  duplicates: {
    '': 'How many duplicates each scope sent, by minute, where engines count them. Deleted after a day.',
    scope: 'The scope; empty for the rest, where very many scopes sent some.',
    minute: 'The minute in which they came.',
    pipeline: 'The pipeline they asked for.',
    replayed: 'Retries that got the stored response.',
    in_flight: 'Requests for a key that was running.',
    mismatched: 'Requests whose key belonged to another request or pipeline.',
  },
  readings: {
    '': 'One row: the numbers that processes export as gauges, read by one of them for all.',
    id: 'Always 1.',
    taken_at: 'When a process last began to read them.',
    reading: 'The numbers; null until they have been read.',
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
