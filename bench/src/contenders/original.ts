import { setTimeout as delay } from 'node:timers/promises'
import pg, { type Pool, type PoolClient } from 'pg'
import {
  businessTables,
  CONFLICT,
  createdAnswer,
  INSERT_JOB,
  INSERT_RIDE,
  jobValues,
  MISMATCH,
  RIDE,
  rideValues,
  SET_CHARGE,
} from '../business.js'
import type { Answer, Contender, ContenderOptions, Opened } from '../contender.js'
import { type Charges, openCharges } from '../provider/charge.js'
import { inTransaction } from './in-transaction.js'
import { openPool, runSql } from './open-pool.js'

const SCHEMA = 'bench_original'

/** The article's: a request that was locked for longer has died. */
const LOCK_TIMEOUT = "interval '90 seconds'"

/** Serialization failures go away; one that does not is an error. */
const MAX_TRIES = 50
const MAX_PAUSE_MS = 20

const SERIALIZATION_FAILURE = '40001'
const DEADLOCK = '40P01'
const UNIQUE_VIOLATION = '23505'

const KEYS = `
CREATE TABLE ${SCHEMA}.idempotency_keys (
  id              bigserial PRIMARY KEY,
  created_at      timestamptz NOT NULL DEFAULT now(),
  idempotency_key text NOT NULL CHECK (char_length(idempotency_key) <= 100),
  last_run_at     timestamptz NOT NULL DEFAULT now(),
  locked_at       timestamptz DEFAULT now(),
  request_method  text NOT NULL CHECK (char_length(request_method) <= 10),
  request_params  jsonb NOT NULL,
  request_path    text NOT NULL CHECK (char_length(request_path) <= 100),
  response_code   integer,
  response_body   jsonb,
  recovery_point  text NOT NULL CHECK (char_length(recovery_point) <= 50),
  user_id         text NOT NULL,
  ride_id         uuid,
  charge_id       text
);
CREATE UNIQUE INDEX idempotency_keys_user_id_idempotency_key ON ${SCHEMA}.idempotency_keys (user_id, idempotency_key);`

const FIND = `
SELECT id, recovery_point, ride_id, charge_id, response_code, response_body::text,
       request_params = $3::jsonb AS is_same, locked_at > now() - ${LOCK_TIMEOUT} AS is_locked
  FROM idempotency_keys WHERE user_id = $1 AND idempotency_key = $2`

const CREATE = `
INSERT INTO idempotency_keys (user_id, idempotency_key, request_method, request_path, request_params, recovery_point)
VALUES ($1, $2, 'POST', '/rides', $3, 'started') RETURNING id`

const LOCK = 'UPDATE idempotency_keys SET last_run_at = now(), locked_at = now() WHERE id = $1'
const UNLOCK = 'UPDATE idempotency_keys SET locked_at = NULL WHERE id = $1'
const RIDE_CREATED = `UPDATE idempotency_keys SET recovery_point = 'ride_created', ride_id = $2 WHERE id = $1`
const CHARGE_CREATED = `UPDATE idempotency_keys SET recovery_point = 'charge_created', charge_id = $2 WHERE id = $1`
const FINISHED = `
UPDATE idempotency_keys SET locked_at = NULL, recovery_point = 'finished', response_code = $2, response_body = $3
 WHERE id = $1`

interface KeyRow {
  readonly id: string
  readonly recovery_point: string
  readonly ride_id: string | null
  readonly charge_id: string | null
  readonly response_code: number | null
  readonly response_body: string | null
  readonly is_same: boolean
  readonly is_locked: boolean | null
}

interface Locked {
  readonly id: string
  readonly ride: string | null
  readonly charge: string | null
}

/** The pattern as the article has it: every phase SERIALIZABLE, and the call inside the phase's transaction. */
export const original: Contender = {
  name: 'original',
  title: "the article's pattern, call inside the transaction",

  prepare: (databaseUrl) => runSql(databaseUrl, `${businessTables(SCHEMA, { withJobs: true })}${KEYS}`),

  async open({ databaseUrl, providerUrl, poolSize, providerDelayMs }: ContenderOptions): Promise<Opened> {
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    const charges = openCharges(providerUrl, providerDelayMs)
    return {
      request: (key) => createRide(pool, charges, key),
      async close() {
        charges.close()
        await pool.end()
      },
    }
  },
}

async function createRide(pool: Pool, charges: Charges, key: string): Promise<Answer> {
  const found = await atomicPhase(pool, (client) => findOrCreate(client, key)).catch((error: unknown) => {
    if (sqlStateOf(error) === UNIQUE_VIOLATION) return { answer: inProgress }
    throw error
  })
  if ('answer' in found) return found.answer
  const { id } = found.locked
  try {
    const ride = found.locked.ride ?? (await atomicPhase(pool, (client) => insertRide(client, id)))
    const charge =
      found.locked.charge ?? (await atomicPhase(pool, (client) => chargeFor(client, charges, id, ride)))
    return await atomicPhase(pool, (client) => finish(client, id, ride, charge))
  } catch (error) {
    await pool.query(UNLOCK, [id]).catch(() => {})
    throw error
  }
}

const inProgress: Answer = { status: CONFLICT, body: '{"error":"request_in_progress"}' }

async function findOrCreate(
  client: PoolClient,
  key: string,
): Promise<{ answer: Answer } | { locked: Locked }> {
  const { origin, target, amount } = RIDE
  const params = JSON.stringify({ origin, target, amount })
  const found = await client.query<KeyRow>(FIND, [RIDE.scope, key, params])
  const [row] = found.rows
  if (row === undefined) {
    const created = await client.query<{ id: string }>(CREATE, [RIDE.scope, key, params])
    return { locked: { id: created.rows[0]?.id ?? '', ride: null, charge: null } }
  }
  if (!row.is_same) return { answer: { status: MISMATCH, body: '{"error":"params_mismatch"}' } }
  if (row.recovery_point === 'finished')
    return { answer: { status: row.response_code ?? 0, body: row.response_body ?? '' } }
  if (row.is_locked === true) return { answer: inProgress }
  await client.query(LOCK, [row.id])
  return { locked: { id: row.id, ride: row.ride_id, charge: row.charge_id } }
}

async function insertRide(client: PoolClient, id: string): Promise<string> {
  const { rows } = await client.query<{ id: string }>(INSERT_RIDE, rideValues())
  const ride = rows[0]?.id ?? ''
  await client.query(RIDE_CREATED, [id, ride])
  return ride
}

/** The provider answers while the transaction is open and its connection taken. */
async function chargeFor(client: PoolClient, charges: Charges, id: string, ride: string): Promise<string> {
  const charge = await charges.charge({ amount: RIDE.amount, ride }, `rocket-rides-atomic-${id}`)
  await client.query(SET_CHARGE, [charge.id, ride])
  await client.query(CHARGE_CREATED, [id, charge.id])
  return charge.id
}

async function finish(client: PoolClient, id: string, ride: string, charge: string): Promise<Answer> {
  await client.query(INSERT_JOB, jobValues(ride))
  const answer = createdAnswer(ride, charge)
  await client.query(FINISHED, [id, answer.status, answer.body])
  return answer
}

/** One SERIALIZABLE transaction, tried again for as long as others get in its way. */
async function atomicPhase<T>(pool: Pool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await inTransaction(pool, 'SERIALIZABLE', work)
    } catch (error) {
      const state = sqlStateOf(error)
      const isConflict = state === SERIALIZATION_FAILURE || state === DEADLOCK
      if (!isConflict || tries === MAX_TRIES) throw error
      await delay(Math.random() * MAX_PAUSE_MS)
    }
  }
}

function sqlStateOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}
