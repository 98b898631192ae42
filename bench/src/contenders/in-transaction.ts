import type { Pool, PoolClient } from 'pg'

/** Runs the work between `BEGIN` and `COMMIT` on one client of the pool. An error rolls back and is rethrown. */
export async function inTransaction<T>(
  pool: Pool,
  isolation: 'READ COMMITTED' | 'SERIALIZABLE',
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    await client.query(isolation === 'READ COMMITTED' ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${isolation}`)
    const result = await work(client)
    await client.query('COMMIT')
    return result
  } catch (error) {
    // A connection that cannot even roll back must not be reused.
    await client.query('ROLLBACK').catch((reason: Error) => (broken = reason))
    throw error
  } finally {
    client.release(broken)
  }
}
