import type * as thisCore from '@pawl/core'
import type { Directive, JsonObject, JsonValue, Respond, TransactionContext } from '@pawl/core'
import { sql } from 'kysely'
import type { Chances } from './chances.js'
import { type FactDatabase, runOf } from './fact-tables.js'
import {
  type Mishap,
  type ResponsePlan,
  SQL_STATES,
  type TransactionPlan,
  valueOf,
  type Work,
} from './phase-plan.js'

/** What a plan needs of @pawl/core. */
export type Core = Pick<
  typeof thisCore,
  'pawl' | 'respond' | 'respondBytes' | 'retryLater' | 'found' | 'absent'
>

interface Doing {
  readonly name: string
  readonly context: TransactionContext<FactDatabase, JsonValue, JsonObject>
  /** The result of the phase's call: its first fact. */
  readonly charge?: string
}

/** Does the work, then meets its trouble, then ends: what is rolled back has been written. */
export async function runTransactionPlan(
  { work, trouble, ending }: TransactionPlan,
  doing: Doing & { readonly core: Core; readonly chances: Chances },
): Promise<JsonObject | Directive | undefined> {
  const { chances, context, name } = doing
  await doWork(work, doing)
  if (trouble !== null && chances.strikes(context.keyId, `${name} transaction`, trouble.times)) {
    const directive = await meet(trouble.mishap, doing)
    if (directive !== undefined) return directive
  }
  if (ending.kind === 'respond') return respondAs(ending.response, doing)
  return ending.patch ?? undefined
}

/** Writes what the plan says, in its order. */
export async function doWork(work: Work, { name, context, charge }: Doing): Promise<void> {
  const { tx, input, state, scope, stage } = context
  const values = work.facts.map((source) => valueOf(source, input, state))
  for (const [n, value] of [...(charge === undefined ? [] : [{ charge }]), ...values].entries()) {
    await tx
      .insertInto('facts')
      .values({ run: runOf(context), phase: name, n, value: JSON.stringify(value) })
      .execute()
  }
  for (const total of work.totals) {
    await tx
      .insertInto('totals')
      .values({ scope, ...total })
      .onConflict((conflict) =>
        conflict.columns(['scope', 'name']).doUpdateSet({ amount: sql`totals.amount + excluded.amount` }),
      )
      .execute()
  }
  for (const job of work.jobs) await stage(job.name, valueOf(job.payload, input, state))
}

async function meet(
  mishap: Mishap,
  { core, context }: Doing & { readonly core: Core },
): Promise<Directive | undefined> {
  switch (mishap.kind) {
    case 'throws':
      throw new Error('the phase threw, as planned')
    case 'retry_later':
      return core.retryLater(new Error('not now, as planned'))
    case 'answers':
      return core.respond(mishap.status, { planned: true })
    case 'sql_error': {
      const raise = `DO $$ BEGIN RAISE EXCEPTION 'planned' USING ERRCODE = '${SQL_STATES[mishap.error]}'; END $$`
      const raised = sql.raw(raise).execute(context.tx)
      await (mishap.swallowed ? raised.catch(() => {}) : raised)
      return undefined
    }
  }
}

function respondAs(
  { status, body, headers }: ResponsePlan,
  { core, context }: Doing & { readonly core: Core },
): Respond {
  switch (body.kind) {
    case 'none':
      return core.respond(status, undefined, { headers })
    case 'json':
      return core.respond<JsonValue>(status, valueOf(body.source, context.input, context.state), { headers })
    case 'text':
      return core.respondBytes(status, body.text, { headers })
  }
}
