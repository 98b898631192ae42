import type * as thisCore from '@pawl/core'
import type { Directive, JsonObject, JsonValue, Respond, TransactionContext, Writing } from '@pawl/core'
import { sql } from 'kysely'
import type { Awaits } from './body-style.js'
import type { Chances } from './chances.js'
import { type FactDatabase, runOf } from './fact-tables.js'
import { isImmediate, meetMishap } from './meet-mishap.js'
import { type ResponsePlan, type TransactionPlan, type Trouble, valueOf, type Work } from './phase-plan.js'
import { sendLoose } from './send-loose.js'
import { takeDetour } from './take-detour.js'
import { notingUnsent, type UnsentWrites, type Write } from './unsent-writes.js'

/** What a plan needs of @pawl/core. */
export type Core = Pick<
  typeof thisCore,
  'pawl' | 'respond' | 'respondBytes' | 'retryLater' | 'found' | 'absent'
>

/** What a body works with. */
export interface Doing {
  readonly name: string
  readonly context: TransactionContext<FactDatabase, JsonValue, JsonObject>
  /** The result of the phase's call: its first fact. */
  readonly charge?: string
  /** What this run of the body could not send. */
  readonly unsent: Set<Write>
}

/** What bodies are handed beside their context. */
interface Parts {
  readonly core: Core
  readonly chances: Chances
  readonly unsentWrites: UnsentWrites
}

type Ended = JsonObject | Directive | undefined

/** Starts something only when it is called. */
type Start = () => Promise<Directive | undefined>

/** Does the work in its style, meets its trouble, and ends. It is not an async function, because it may throw at once. */
export function runTransactionPlan(
  plan: TransactionPlan,
  parts: Omit<Doing, 'unsent'> & Parts,
): Promise<Ended> {
  const { chances, context, name } = parts
  const { trouble } = plan
  const strikes =
    trouble !== null && chances.strikes(context.keyId, `${name} transaction`, trouble.times) ? trouble : null
  if (strikes?.mishap.kind === 'throws_at_once') throw new Error('the phase threw at once, as planned')
  return runInStyle(plan, strikes, { ...parts, unsent: new Set() })
}

async function runInStyle(
  { work, style, ending }: TransactionPlan,
  trouble: Trouble | null,
  doing: Doing & Parts,
): Promise<Ended> {
  const loose = sendLoose(style.loose, doing)
  loose('first')
  for (const [index, detour] of style.detours.entries()) await takeDetour(detour, index, doing)
  const slow: Start[] = style.slow
    ? [nothing(() => sql`SELECT pg_sleep(0.003)`.execute(doing.context.tx))]
    : []
  const facts = [...slow, ...factsOf(work, doing, style.writes)]
  const others = [
    nothing(async () => loose('middle')),
    ...totalsOf(work, doing, style.writes),
    ...jobsOf(work, doing),
  ]
  const directive = await perform(style.awaits, facts, others, trouble, doing)
  await noteUnsent(doing)
  loose('last')
  if (directive !== undefined) return directive
  if (ending.kind === 'respond') return respondAs(ending.response, doing)
  return ending.patch ?? undefined
}

/** Asks for the transaction's id only where something is missing: no other body has a statement more than its plan. */
async function noteUnsent({ name, context, unsent, unsentWrites }: Doing & Parts): Promise<void> {
  if (unsent.size === 0) return
  const { rows } = await sql<{ id: string }>`SELECT pg_current_xact_id()::text AS id`.execute(context.tx)
  for (const { id } of rows) unsentWrites.add({ phase: name, transaction: id, writes: unsent })
}

/** Writes what the plan says, in its order, and awaits each. */
export async function doWork(work: Work, doing: Doing): Promise<void> {
  for (const start of [...factsOf(work, doing), ...totalsOf(work, doing), ...jobsOf(work, doing)])
    await start()
}

/** Starts everything and waits for it in the body's way. Returns the directive that the mishap leads to. */
async function perform(
  awaits: Awaits,
  facts: readonly Start[],
  others: readonly Start[],
  trouble: Trouble | null,
  doing: Doing & { readonly core: Core },
): Promise<Directive | undefined> {
  const mishap: Start[] = trouble === null ? [] : [() => meetMishap(trouble.mishap, doing)]
  const isFirst = trouble?.at === 'first'
  const inPlace = isFirst ? [...mishap, ...facts, ...others] : [...facts, ...others, ...mishap]
  const lagging = trouble?.at === 'lagging' ? [...facts, ...others, ...mishap.map(after(doing))] : inPlace
  switch (awaits) {
    case 'in_turn':
      return inTurn(inPlace)
    case 'all':
      return (await Promise.all(lagging.map((start) => start()))).find(isDirective)
    case 'all_settled': {
      const settled = await Promise.allSettled(lagging.map((start) => start()))
      return settled.map((each) => (each.status === 'fulfilled' ? each.value : undefined)).find(isDirective)
    }
    case 'race': {
      // What fails without an answer from the database always wins, so racing it makes no difference to the outcome.
      const isRaced = trouble !== null && isImmediate(trouble.mishap)
      const raced = isRaced ? [...facts, ...mishap] : facts
      if (raced.length > 0) await Promise.race(raced.map((start) => start()))
      return inTurn(isRaced ? others : [...others, ...mishap])
    }
  }
}

async function inTurn(starts: readonly Start[]): Promise<Directive | undefined> {
  for (const start of starts) {
    const directive = await start()
    if (directive !== undefined) return directive
  }
  return undefined
}

const isDirective = (value: Directive | undefined): boolean => value !== undefined

/** Starts the same once a query of its own is answered. */
const after =
  ({ context }: Doing) =>
  (start: Start): Start =>
  async () => {
    await sql`SELECT 1`.execute(context.tx)
    return start()
  }

function nothing(start: () => Promise<unknown>): Start {
  return async () => {
    await start()
    return undefined
  }
}

function factsOf(work: Work, { name, context, charge, unsent }: Doing, writes = false): Start[] {
  const { tx, input, state } = context
  const values = work.facts.map((source) => valueOf(source, input, state))
  return [...(charge === undefined ? [] : [{ charge }]), ...values].map((value, n) =>
    nothing(() => {
      const row = { run: runOf(context), phase: name, n, value: JSON.stringify(value) }
      const added = tx.insertInto('facts').values(row)
      return writes ? handOver(context, added) : notingUnsent(`fact ${n}`, unsent, added.execute())
    }),
  )
}

function totalsOf(work: Work, { context, unsent }: Doing, writes = false): Start[] {
  const { tx, scope } = context
  return work.totals.map((total, index) =>
    nothing(() => {
      const added = tx
        .insertInto('totals')
        .values({ scope, ...total })
        .onConflict((conflict) =>
          conflict.columns(['scope', 'name']).doUpdateSet({ amount: sql`totals.amount + excluded.amount` }),
        )
      return writes ? handOver(context, added) : notingUnsent(`total ${index}`, unsent, added.execute())
    }),
  )
}

/** There is nothing to wait for, and no error to see. */
async function handOver({ write }: Doing['context'], query: Writing): Promise<void> {
  write(query)
}

function jobsOf(work: Work, { context }: Doing): Start[] {
  const { stage, input, state } = context
  return work.jobs.map(({ name, payload }) => nothing(() => stage(name, valueOf(payload, input, state))))
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
