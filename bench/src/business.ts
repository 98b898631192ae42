import type { Answer } from './contender.js'

/** What every request asks for: the same ride, so that all contenders write the same bytes. */
export const RIDE = {
  scope: 'rider-1',
  origin: '37.774929,-122.419416',
  target: '37.804363,-122.271111',
  amount: 2_000,
}

/** How many digits of a key name its rider: 16 to the power of this, a few thousand, riders. */
export const RIDER_DIGITS = 3

/** Where requests come from many riders: the one who sends this key. */
export const riderOf = (key: string): string => `rider-${key.slice(0, RIDER_DIGITS)}`

/** What a client sends; its scope comes from elsewhere. A type, not an interface: it is kept as JSON. */
export type RideInput = { readonly origin: string; readonly target: string; readonly amount: number }

export const rideInput: RideInput = { origin: RIDE.origin, target: RIDE.target, amount: RIDE.amount }

/** The job that is written with every ride. */
export const RECEIPT_JOB = 'send_receipt'

/** The application's rides, in the schema of a contender. */
const rides = (schema: string): string => `
CREATE TABLE "${schema}".rides (
  id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  scope      text NOT NULL,
  origin     text NOT NULL,
  target     text NOT NULL,
  amount     integer NOT NULL,
  charge_id  text,
  created_at timestamptz NOT NULL DEFAULT now()
);`

/** Jobs that a queue would take from here, as in the article. For contenders that bring no such table. */
const jobs = (schema: string): string => `
CREATE TABLE "${schema}".jobs (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text NOT NULL,
  payload    json NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);`

/** Creates the schema of a contender: drops what an earlier run left, and creates the business tables. */
export function businessTables(schema: string, { withJobs }: { readonly withJobs: boolean }): string {
  return `DROP SCHEMA IF EXISTS "${schema}" CASCADE;
CREATE SCHEMA "${schema}";${rides(schema)}${withJobs ? jobs(schema) : ''}`
}

// The business statements. No schema in them: a contender's connections have it in their search_path.

/** Values: scope, origin, target, amount. Returns the ride's id. */
export const INSERT_RIDE =
  'INSERT INTO rides (scope, origin, target, amount) VALUES ($1, $2, $3, $4) RETURNING id'

/** Values: charge, ride. */
export const SET_CHARGE = 'UPDATE rides SET charge_id = $1 WHERE id = $2'

/** Values: name, payload as JSON text. */
export const INSERT_JOB = 'INSERT INTO jobs (name, payload) VALUES ($1, $2)'

export const rideValues = ({ origin, target, amount } = rideInput): unknown[] => [
  RIDE.scope,
  origin,
  target,
  amount,
]

export const jobValues = (ride: string): unknown[] => [RECEIPT_JOB, JSON.stringify({ ride })]

/** The answer to every request that went well. */
export const CREATED = 201

/** The answer to a duplicate while the first request is still running. */
export const CONFLICT = 409

/** The answer to another request under the same key. */
export const MISMATCH = 422

/** What a request gets whose key was deleted after its charge. */
export const GONE = 410

export const createdAnswer = (ride: string, charge: string): Answer => ({
  status: CREATED,
  body: JSON.stringify({ ride, charge }),
})
