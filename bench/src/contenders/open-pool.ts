import pg from 'pg'

/** A pool whose connections find the tables of one schema. It reaches its full size under load, and keeps it. */
export function openPool(databaseUrl: string, schema: string, size: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: size,
    // Contenders wait for their turn: connections closed meanwhile would be opened again in the timed part.
    idleTimeoutMillis: 0,
    options: `-c search_path=${schema}`,
  })
  // A pool without a listener ends the process when an idle connection breaks, as at the end of a run.
  pool.on('error', () => {})
  return pool
}

/** Runs statements that prepare a schema, on a connection of their own. */
export async function runSql(databaseUrl: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}
