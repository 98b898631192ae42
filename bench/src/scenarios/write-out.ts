import type { Client } from 'pg'

const INSUFFICIENT_PRIVILEGE = '42501'

/** Flushes what was written to prepare a scenario, so that it is not flushed while contenders are timed. */
export async function writeOut(client: Client): Promise<void> {
  try {
    await client.query('CHECKPOINT')
  } catch (error) {
    // On a given server, we may lack the right: then it is flushed at some later time.
    if ((error as { code?: unknown }).code !== INSUFFICIENT_PRIVILEGE) throw error
  }
}
