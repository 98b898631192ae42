import type { Client } from 'pg'

const INSUFFICIENT_PRIVILEGE = '42501'

/** What was written to prepare a scenario is not to be flushed while others are timed. */
export async function writeOut(client: Client): Promise<void> {
  try {
    await client.query('CHECKPOINT')
  } catch (error) {
    // On a server that was given, not everybody may do so: then it happens when it happens.
    if ((error as { code?: unknown }).code !== INSUFFICIENT_PRIVILEGE) throw error
  }
}
