import { sql } from 'kysely'
import { type Detour, FIRST_DETOUR_FACT } from './body-style.js'
import { runOf } from './fact-tables.js'
import { raise } from './meet-mishap.js'
import type { Doing } from './run-transaction-plan.js'

/** Does something that the body recovers from, which leaves a fact behind or nothing. */
export async function takeDetour(detour: Detour, index: number, { name, context }: Doing): Promise<void> {
  const { tx } = context
  const run = runOf(context)
  const insert = (value: string) =>
    tx
      .insertInto('facts')
      .values({ run, phase: name, n: FIRST_DETOUR_FACT + index, value: JSON.stringify(value) })
      .execute()
  switch (detour) {
    case 'savepoint_released':
      await sql`SAVEPOINT detour`.execute(tx)
      await insert(detour)
      await sql`RELEASE SAVEPOINT detour`.execute(tx)
      return
    case 'savepoint_undone':
      await sql`SAVEPOINT detour`.execute(tx)
      await Promise.all([insert('stray'), insert('stray')])
      await sql`ROLLBACK TO SAVEPOINT detour`.execute(tx)
      return
    case 'savepoint_after_error':
      await sql`SAVEPOINT detour`.execute(tx)
      await Promise.allSettled([insert('stray'), raise('unique_violation').execute(tx), insert('stray')])
      await sql`ROLLBACK TO SAVEPOINT detour`.execute(tx)
      return
    case 'several_statements': {
      // One text without parameters, the way a migration or a script is sent.
      const values = [run, name, String(FIRST_DETOUR_FACT + index), JSON.stringify(detour)]
      const literals = values.map((value) => `'${value.replaceAll("'", "''")}'`)
      const text = `INSERT INTO facts (run, phase, n, value) VALUES (${literals.join(', ')})`
      await sql.raw(`SELECT 1; ${text}; SELECT 2`).execute(tx)
      return
    }
    case 'nested_caught':
      try {
        await tx.transaction().execute(async () => insert('stray'))
      } catch {}
      return
    case 'stream_caught':
      try {
        for await (const _ of tx.selectFrom('facts').select('id').stream());
      } catch {}
      return
  }
}
