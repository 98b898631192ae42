import { setImmediate as immediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { FIRST_LOOSE_FACT, type Loose } from './body-style.js'
import { runOf } from './fact-tables.js'
import type { Doing } from './run-transaction-plan.js'

/**
 * Starts the statements that float beside the body, and returns a function that sends those whose place has come. Nobody
 * awaits them. Their errors are caught here only to keep the process alive: an unhandled rejection would end it.
 */
export function sendLoose(
  statements: readonly Loose[],
  doing: Doing,
): (at: 'first' | 'middle' | 'last') => void {
  const send = (index: number, slow: boolean): void => {
    insert(index, slow, doing).catch(() => {})
  }
  for (const [index, { at, slow }] of statements.entries())
    if (typeof at === 'object') void pass(at.after, at.turns).then(() => send(index, slow))
  return (place) => {
    for (const [index, { at, slow }] of statements.entries()) if (at === place) send(index, slow)
  }
}

async function insert(index: number, slow: boolean, { name, context }: Doing): Promise<void> {
  const n = FIRST_LOOSE_FACT + index
  const row = { run: runOf(context), phase: name, n, value: JSON.stringify('loose') }
  const { tx } = context
  if (slow)
    await sql`INSERT INTO facts (run, phase, n, value)
              SELECT ${row.run}, ${row.phase}, ${n}::integer, ${row.value}::json FROM pg_sleep(0.002)`.execute(
      tx,
    )
  else await tx.insertInto('facts').values(row).execute()
}

/** Lets `count` turns pass, of promises or of the event loop. */
export async function pass(count: number, turns: 'microtasks' | 'immediates'): Promise<void> {
  for (let turn = 0; turn < count; turn++) await (turns === 'immediates' ? immediate() : null)
}
