import {
  businessTables,
  CONFLICT,
  createdAnswer,
  INSERT_JOB,
  INSERT_RIDE,
  jobValues,
  MISMATCH,
  RIDE,
  rideInput,
  type RideInput,
  rideValues,
  SET_CHARGE,
} from '../business.js'
import type { Answer, Contender, ContenderOptions, Opened } from '../contender.js'
import { openCharges, type ChargeRequest, type Charges } from '../provider/charge.js'
import type { Pool, PoolClient } from 'pg'
import { inTransaction } from './in-transaction.js'
import { openPool, runSql } from './open-pool.js'

/** A holder that died is replaced after this; the article's 90 seconds. */
const LEASE = "interval '90 seconds'"

const keys = (schema: string): string => `
CREATE TABLE "${schema}".idempotency_keys (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope          text NOT NULL,
  key            text NOT NULL,
  params         jsonb NOT NULL,
  recovery_point text NOT NULL DEFAULT 'started',
  locked_at      timestamptz,
  ride_id        uuid,
  charge_id      text,
  response_code  integer,
  response_body  text,
  created_at     timestamptz NOT NULL DEFAULT now(),
  UNIQUE (scope, key)
);`

const RESERVE = `
INSERT INTO idempotency_keys (scope, key, params, locked_at) VALUES ($1, $2, $3, now())
ON CONFLICT (scope, key) DO NOTHING RETURNING id, locked_at::text`

const FIND = `
SELECT id, recovery_point, ride_id, charge_id, response_code, response_body,
       params = $3::jsonb AS is_same, locked_at > now() - ${LEASE} AS is_locked
  FROM idempotency_keys WHERE scope = $1 AND key = $2`

const TAKE_OVER = `
UPDATE idempotency_keys SET locked_at = now()
 WHERE id = $1 AND recovery_point = $2 AND (locked_at IS NULL OR locked_at <= now() - ${LEASE})
RETURNING locked_at::text`

const RIDE_CREATED = `
UPDATE idempotency_keys SET recovery_point = 'ride_created', ride_id = $3
 WHERE id = $1 AND locked_at = $2 AND recovery_point = 'started'`

const CHARGE_CREATED = `
UPDATE idempotency_keys SET recovery_point = 'charge_created', charge_id = $3
 WHERE id = $1 AND locked_at = $2 AND recovery_point = 'ride_created'`

const FINISHED = `
UPDATE idempotency_keys SET recovery_point = 'finished', locked_at = NULL, response_code = $3, response_body = $4
 WHERE id = $1 AND locked_at = $2 AND recovery_point = 'charge_created'`

const UNLOCK = 'UPDATE idempotency_keys SET locked_at = NULL WHERE id = $1 AND locked_at = $2'

interface KeyRow {
  readonly id: string
  readonly recovery_point: 'started' | 'ride_created' | 'charge_created' | 'finished'
  readonly ride_id: string | null
  readonly charge_id: string | null
  readonly response_code: number | null
  readonly response_body: string | null
  readonly is_same: boolean
  readonly is_locked: boolean | null
}

/** A key that this request holds, and how far it has come. */
interface Held {
  readonly id: string
  /** As text: a Date would lose microseconds, and the lease would not be found again. */
  readonly lockedAt: string
  ride: string | null
  charge: string | null
}

/** Makes the business tables and the keys, in one schema. */
export function preparePattern(databaseUrl: string, schema: string): Promise<void> {
  return runSql(databaseUrl, `${businessTables(schema, { withJobs: true })}${keys(schema)}`)
}

/** The pattern on a pool of its own. */
export function openPattern(schema: string, options: ContenderOptions) {
  const pool = openPool(options.databaseUrl, schema, options.poolSize)
  const charges = openCharges(options.providerUrl, options.providerDelayMs)
  return {
    createRide: (key: string, input: RideInput): Promise<Answer> => createRide(pool, charges, key, input),
    async close(): Promise<void> {
      charges.close()
      await pool.end()
    },
  }
}

const SCHEMA = 'bench_hand_written'

/** The pattern of the article in plain `pg`, with the call outside transactions. */
export const handWritten: Contender = {
  name: 'hand-written',
  title: 'hand-written in plain pg, call outside transactions',

  prepare: (databaseUrl) => preparePattern(databaseUrl, SCHEMA),

  async open(options): Promise<Opened> {
    const pattern = openPattern(SCHEMA, options)
    return {
      request: (key) => pattern.createRide(key, rideInput),
      close: () => pattern.close(),
    }
  },
}

async function createRide(pool: Pool, charges: Charges, key: string, input: RideInput): Promise<Answer> {
  const reserved = await reserve(pool, key, input)
  if ('answer' in reserved) return reserved.answer
  const { held } = reserved
  try {
    held.ride ??= await insertRide(pool, held, input)
    const request = { amount: input.amount, ride: held.ride }
    held.charge ??= await chargeFor(pool, charges, held, request, key)
    return await finish(pool, held, held.ride, held.charge)
  } catch (error) {
    // A retry does not have to wait for the lease.
    await pool.query(UNLOCK, [held.id, held.lockedAt]).catch(() => {})
    throw error
  }
}

async function reserve(
  pool: Pool,
  key: string,
  input: RideInput,
): Promise<{ answer: Answer } | { held: Held }> {
  const params = JSON.stringify(input)
  const inserted = await pool.query<{ id: string; locked_at: string }>(RESERVE, [RIDE.scope, key, params])
  const [fresh] = inserted.rows
  if (fresh !== undefined)
    return { held: { id: fresh.id, lockedAt: fresh.locked_at, ride: null, charge: null } }

  const conflict = { answer: { status: CONFLICT, body: '{"error":"in progress"}' } }
  const found = await pool.query<KeyRow>(FIND, [RIDE.scope, key, params])
  const [row] = found.rows
  if (row === undefined) return conflict
  if (!row.is_same) return { answer: { status: MISMATCH, body: '{"error":"another request"}' } }
  if (row.recovery_point === 'finished')
    return { answer: { status: row.response_code ?? 0, body: row.response_body ?? '' } }
  if (row.is_locked === true) return conflict
  const taken = await pool.query<{ locked_at: string }>(TAKE_OVER, [row.id, row.recovery_point])
  const [lock] = taken.rows
  if (lock === undefined) return conflict
  return { held: { id: row.id, lockedAt: lock.locked_at, ride: row.ride_id, charge: row.charge_id } }
}

async function insertRide(pool: Pool, held: Held, input: RideInput): Promise<string> {
  return inTransaction(pool, 'READ COMMITTED', async (client) => {
    const { rows } = await client.query<{ id: string }>(INSERT_RIDE, rideValues(input))
    const ride = rows[0]?.id ?? ''
    await advance(client, RIDE_CREATED, [held.id, held.lockedAt, ride])
    return ride
  })
}

async function chargeFor(
  pool: Pool,
  charges: Charges,
  held: Held,
  request: ChargeRequest,
  key: string,
): Promise<string> {
  const charge = await charges.charge(request, `${RIDE.scope}-${key}`)
  await inTransaction(pool, 'READ COMMITTED', async (client) => {
    await client.query(SET_CHARGE, [charge.id, request.ride])
    await advance(client, CHARGE_CREATED, [held.id, held.lockedAt, charge.id])
  })
  return charge.id
}

async function finish(pool: Pool, held: Held, ride: string, charge: string): Promise<Answer> {
  const answer = createdAnswer(ride, charge)
  await inTransaction(pool, 'READ COMMITTED', async (client) => {
    await client.query(INSERT_JOB, jobValues(ride))
    await advance(client, FINISHED, [held.id, held.lockedAt, answer.status, answer.body])
  })
  return answer
}

/** The last statement of every phase: it fails the phase if somebody else holds the key by now. */
async function advance(client: PoolClient, statement: string, values: unknown[]): Promise<void> {
  const { rowCount } = await client.query(statement, values)
  if (rowCount !== 1) throw new Error('The key is held by another request.')
}
