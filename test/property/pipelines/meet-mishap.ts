import type { Directive } from '@pawl/core'
import { sql } from 'kysely'
import { STRAY_FACT } from './body-style.js'
import { runOf } from './fact-tables.js'
import { IMMEDIATE_ERRORS, type Mishap, SQL_STATES, type SqlError } from './phase-plan.js'
import type { Core, Doing } from './run-transaction-plan.js'
import { notingUnsent } from './unsent-writes.js'

/** Whether it fails before any query that is sent with it can be answered. */
export function isImmediate({ kind }: Mishap): boolean {
  return (IMMEDIATE_ERRORS as readonly string[]).includes(kind)
}

/** Makes it go wrong. */
export async function meetMishap(
  mishap: Mishap,
  { core, context, name, unsent }: Doing & { readonly core: Core },
): Promise<Directive | undefined> {
  const { tx, stage } = context
  switch (mishap.kind) {
    case 'throws':
    case 'throws_at_once':
      throw new Error('the phase threw, as planned')
    case 'stage_refused':
      // This is what somebody writes who forgets that payloads are JSON.
      await stage('mail', { at: new Date(0) } as never)
      return undefined
    case 'nested':
      await tx.transaction().execute(async () => {})
      return undefined
    case 'stream':
      for await (const _ of tx.selectFrom('facts').select('id').stream());
      return undefined
    case 'retry_later':
      return core.retryLater(new Error('not now, as planned'))
    case 'answers':
      return core.respond(mishap.status, { planned: true })
    case 'sql_error': {
      const raised = notingUnsent('error', unsent, raise(mishap.error).execute(tx))
      await (mishap.afterwards === 'passes' ? raised : raised.catch(() => {}))
      if (mishap.afterwards === 'passes' || mishap.afterwards === 'swallowed') return undefined
      const stray = { run: runOf(context), phase: name, n: STRAY_FACT, value: JSON.stringify('stray') }
      const queried = notingUnsent('stray', unsent, tx.insertInto('facts').values(stray).execute())
      await (mishap.afterwards === 'queries_on' ? queried : queried.catch(() => {}))
      return undefined
    }
  }
}

/** A statement that fails with this error. */
export function raise(error: SqlError) {
  return sql.raw(`DO $$ BEGIN RAISE EXCEPTION 'planned' USING ERRCODE = '${SQL_STATES[error]}'; END $$`)
}
