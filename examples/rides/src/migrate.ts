import { migrate as migratePawl } from '@pawl/core'
import { runMigrations } from 'graphile-worker'
import type { Pool } from 'pg'

/** The same for every process that starts at once: they take turns. */
const LOCK = 7_214_900

const tablesWith = (pawlSchema: string) => `
CREATE TABLE IF NOT EXISTS users (
  id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  token          text NOT NULL UNIQUE,
  payment_method text NOT NULL
);
CREATE TABLE IF NOT EXISTS rides (
  id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id    uuid NOT NULL REFERENCES users (id),
  key_id     uuid UNIQUE REFERENCES ${pawlSchema}.idempotency_keys (id) ON DELETE SET NULL,
  origin_lat double precision NOT NULL,
  origin_lon double precision NOT NULL,
  target_lat double precision NOT NULL,
  target_lon double precision NOT NULL,
  amount     integer NOT NULL,
  currency   text NOT NULL,
  charge_id  text UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS rides_user_id ON rides (user_id);
CREATE TABLE IF NOT EXISTS audit_records (
  id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  action      text NOT NULL,
  user_id     uuid NOT NULL REFERENCES users (id),
  resource_id uuid NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO users (token, payment_method)
VALUES ('rider-1', 'pm_card_visa'), ('rider-2', 'pm_card_visa'), ('rider-declined', 'pm_card_chargeDeclined')
ON CONFLICT (token) DO NOTHING;
`

/** Creates all tables: the framework's, the queue's and the application's. Repeatable, and safe from many processes. */
export async function migrate(pool: Pool): Promise<void> {
  await migratePawl(pool)
  await runMigrations({ pgPool: pool })
  await createTables(pool)
}

/** The application's own tables, with the riders. Rides refer to the keys of `pawlSchema`. */
export async function createTables(pool: Pool, pawlSchema = 'pawl'): Promise<void> {
  await pool.query(`BEGIN; SELECT pg_advisory_xact_lock(${LOCK}); ${tablesWith(pawlSchema)}; COMMIT`)
}
