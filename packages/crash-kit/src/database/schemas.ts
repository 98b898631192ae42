import type pg from 'pg'
import { KitError } from '../kit-error.js'
import { terminateBusy } from './backends.js'
import { KIT_SCHEMA_PATTERN, type KitSchemas, kitSchemasOf } from './kit-schemas.js'
import { giveBackLock, takeOverLock } from './owner-lock.js'
import type { Server } from './server.js'
import { type Queryable, textRows } from './text-rows.js'

/** Distinguishes the kit's schemas from those that merely have such a name. */
const MARK = 'Made by @pawl/crash-kit for the time of a test run.'

const INSUFFICIENT_PRIVILEGE = '42501'
const READ_ONLY = '25006'

/** Creates the kit's schemas, all or none. */
export async function createSchemas(
  pool: pg.Pool,
  { business, pawl, audit }: KitSchemas,
  server: Server,
): Promise<void> {
  const statements = [business, pawl, audit].map(
    (schema) => `CREATE SCHEMA ${schema}; COMMENT ON SCHEMA ${schema} IS '${MARK}'`,
  )
  try {
    // One message, hence one transaction, so that no schema is ever without its mark.
    await pool.query(statements.join('; '))
  } catch (error) {
    throw explain(error, server)
  }
}

function explain(error: unknown, { role, database }: Server): unknown {
  switch ((error as { code?: unknown }).code) {
    case INSUFFICIENT_PRIVILEGE:
      return new KitError(
        'PAWL_KIT_NO_RIGHTS',
        `Role "${role}" may not create schemas in database "${database}". GRANT CREATE ON DATABASE "${database}" TO "${role}", or pass no pool, for a PostgreSQL of the kit's own.`,
        { cause: error },
      )
    case READ_ONLY:
      return new KitError(
        'PAWL_KIT_READ_ONLY',
        `Database "${database}" takes no writes: it is a replica, or read-only by a setting. Pass a pool of a database that the kit may write to, or none, for a PostgreSQL of the kit's own.`,
        { cause: error },
      )
    default:
      return error
  }
}

export async function dropSchemas(on: Queryable, { business, pawl, audit }: KitSchemas): Promise<void> {
  await on.query(`DROP SCHEMA IF EXISTS ${business}, ${pawl}, ${audit} CASCADE`)
}

/** Drops the schemas of kits whose processes were killed. */
export async function dropLeftovers(pool: pg.Pool): Promise<void> {
  const client = await pool.connect()
  try {
    for (const id of await findKits(client)) await dropIfOrphaned(client, id)
  } finally {
    client.release()
  }
}

/** Finds the ids of kits that this role may drop, whether or not their processes are still alive. */
async function findKits(on: Queryable): Promise<string[]> {
  const rows = await textRows(
    on,
    `SELECT DISTINCT substring(n.nspname FROM $1) AS id FROM pg_namespace AS n
      WHERE n.nspname ~ $1 AND obj_description(n.oid, 'pg_namespace') = $2 AND pg_has_role(n.nspowner, 'USAGE')`,
    [KIT_SCHEMA_PATTERN, MARK],
  )
  return rows.map((row) => row['id'] ?? '')
}

async function dropIfOrphaned(session: pg.PoolClient, id: string): Promise<void> {
  if (!(await takeOverLock(session, id))) return
  try {
    // A transaction of a dead process may still hold locks, because its connection can outlive the process by a while.
    await terminateBusy(session, id)
    await dropSchemas(session, kitSchemasOf(id))
  } catch {
    // They are not this kit's own. The next kit tries again.
  } finally {
    await giveBackLock(session, id)
  }
}
