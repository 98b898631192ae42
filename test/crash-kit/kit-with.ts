import pg from 'pg'
import { inject, onTestFinished } from 'vitest'
import { KitDatabase, type Prepare } from '../../packages/crash-kit/src/database/kit-database.js'
import { LAYOUT } from '../support/layout.js'

/** Returns a pool of the tests' server. Only its options are read; it never connects. */
export function poolOf(config: pg.PoolConfig = {}): pg.Pool {
  return new pg.Pool({ connectionString: inject('databaseUrl'), ...config })
}

/** Opens a kit for one test, with these business tables. `pawl.` stands for the framework's schema. */
export async function kitWith(tables = '', pool: pg.Pool | null = poolOf()): Promise<KitDatabase> {
  const prepare: Prepare = async ({ pool: own, pawlSchema }) => {
    await own.query(tables.replaceAll('pawl.', `${pawlSchema}.`))
  }
  return closedAtTheEnd(await KitDatabase.open({ pool, prepare, layout: LAYOUT }))
}

/** Opens a kit for one test, with copies of the tables that the pool shows. */
export async function copyingKit(pool: pg.Pool): Promise<KitDatabase> {
  return closedAtTheEnd(await KitDatabase.open({ pool, prepare: null, layout: LAYOUT }))
}

function closedAtTheEnd(kit: KitDatabase): KitDatabase {
  onTestFinished(() => kit.close())
  return kit
}

/** Opens a connection of an actor, for one test. */
export async function connect(kit: KitDatabase, actor: string, more: pg.PoolConfig = {}): Promise<pg.Client> {
  const client = new pg.Client(kit.poolConfig(actor, more))
  // The server may end it, when the test wants that or is over.
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Writes a key as the engine would reserve it, and returns its id. */
export async function insertKey(client: pg.Client, kit: KitDatabase, key: string): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    `INSERT INTO ${kit.pawlSchema}.idempotency_keys
       (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, lease_until)
     VALUES ('s', $1, 'p', 1, repeat('0', 16), decode(repeat('00', 32), 'hex'), 1, '{}', gen_random_uuid(),
             clock_timestamp() + interval '1 minute')
     RETURNING id`,
    [key],
  )
  return rows[0]?.id ?? ''
}

/** Returns the first column of what `sql` selects, on the kit's own connections. */
export async function values(kit: KitDatabase, sql: string): Promise<unknown[]> {
  const { rows } = await kit.admin.query<unknown[]>({ text: sql, rowMode: 'array' })
  return rows.map(([value]) => value)
}
