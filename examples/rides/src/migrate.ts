import { migrate as migratePawl } from '@pawl/core'
import { runMigrations } from 'graphile-worker'
import type { Pool } from 'pg'

/** How the tables are stored, Pawl's and these. The first one is the default. */
export const LAYOUTS = ['plain', 'partitioned', 'citus'] as const
export type Layout = (typeof LAYOUTS)[number]

/** The same for every process that starts at once: they take turns. */
const LOCK = 7_214_900

/**
 * How a ride refers to the key of its request, which is all that differs. Where Pawl's tables are divided by scope, a key's
 * id is unique only within its scope, and the scope is the rider.
 */
const KEY_REFERENCE: Readonly<Record<Layout, (keys: string) => string>> = {
  plain: (keys) => `,\n  FOREIGN KEY (key_id) REFERENCES ${keys} (id) ON DELETE SET NULL`,
  partitioned: (keys) =>
    `,\n  FOREIGN KEY (key_id, user_id) REFERENCES ${keys} (id, scope) ON DELETE SET NULL (key_id)`,
  // Citus sets nothing to null: a ride keeps the id of a key that has expired.
  citus: () => '',
}

/** Riders are on every server. What belongs to one rider is on the server that has the keys of its requests. */
const distributed = (pawlSchema: string): string => `
SELECT create_reference_table('users')
 WHERE NOT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'users'::regclass AND partmethod = 'n' AND repmodel = 't');
SELECT create_distributed_table(own.name, 'user_id', colocate_with => '${pawlSchema}.idempotency_keys')
  FROM (VALUES ('rides'), ('audit_records')) AS own (name)
 WHERE NOT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = own.name::regclass AND partmethod = 'h');
`

/** Every row is named by its rider first, as Pawl names its own by the scope: all that a request touches is in one place. */
const tablesWith = (pawlSchema: string, layout: Layout) => `
CREATE TABLE IF NOT EXISTS users (
  id             text COLLATE "C" PRIMARY KEY DEFAULT gen_random_uuid(),
  token          text NOT NULL UNIQUE,
  payment_method text NOT NULL
);
CREATE TABLE IF NOT EXISTS rides (
  id         uuid NOT NULL DEFAULT gen_random_uuid(),
  user_id    text COLLATE "C" NOT NULL REFERENCES users (id),
  key_id     uuid,
  origin_lat double precision NOT NULL,
  origin_lon double precision NOT NULL,
  target_lat double precision NOT NULL,
  target_lon double precision NOT NULL,
  amount     integer NOT NULL,
  currency   text NOT NULL,
  charge_id  text,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (user_id, id),
  UNIQUE (user_id, key_id),
  UNIQUE (user_id, charge_id)${KEY_REFERENCE[layout](`${pawlSchema}.idempotency_keys`)}
);
CREATE INDEX IF NOT EXISTS rides_key_id ON rides (key_id);
CREATE TABLE IF NOT EXISTS audit_records (
  id          uuid NOT NULL DEFAULT gen_random_uuid(),
  action      text NOT NULL,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id),
  resource_id uuid NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (user_id, id)
);${layout === 'citus' ? distributed(pawlSchema) : ''}
INSERT INTO users (token, payment_method)
VALUES ('rider-1', 'pm_card_visa'), ('rider-2', 'pm_card_visa'), ('rider-declined', 'pm_card_chargeDeclined')
ON CONFLICT (token) DO NOTHING;
`

/** Creates all tables: the framework's, the queue's and the application's. Repeatable, and safe from many processes. */
export async function migrate(pool: Pool, layout: Layout): Promise<void> {
  await migratePawl(pool, { layout })
  await runMigrations({ pgPool: pool })
  await createTables(pool, layout)
}

/** The application's own tables, with the riders. Rides refer to the keys of `pawlSchema`. */
export async function createTables(pool: Pool, layout: Layout, pawlSchema = 'pawl'): Promise<void> {
  await pool.query(`BEGIN; SELECT pg_advisory_xact_lock(${LOCK}); ${tablesWith(pawlSchema, layout)}; COMMIT`)
}
