import { setImmediate as immediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { FIRST_LOOSE_FACT, type Loose } from './body-style.js'
import { runOf } from './fact-tables.js'
import type { Doing } from './run-transaction-plan.js'

/**
 * Begins what floats beside the body, and gives what sends those statements whose place has come. Nobody awaits them. What
 * becomes of each is caught here, which changes nothing but that the process goes on: a rejection that nobody hears ends it.
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

/** Lets so many turns pass, of promises or of the event loop. */
export async function pass(count: number, turns: 'microtasks' | 'immediates'): Promise<void> {
  for (let turn = 0; turn < count; turn++) await (turns === 'immediates' ? immediate() : null)
}
