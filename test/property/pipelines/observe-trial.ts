import { randomUUID } from 'node:crypto'
import { openedJson } from '../../support/guards.js'
import { runOf } from './fact-tables.js'
import type { PlanTrial } from './plan-trial.js'
import { chargeOf, inOrder, type Snapshot } from './reference-model.js'

/** What is committed, in the form of the reference model. */
export interface Observed {
  /** What else is read from the key's row. */
  readonly key: {
    readonly status: string
    readonly trail: readonly { readonly point: string; readonly skipped: boolean }[]
    readonly intent: { readonly kind: string; readonly phase: string } | null
  } | null
  readonly snapshot: Snapshot
}

/** A charge as the provider's ledger has it. */
export interface Charge {
  readonly phase: string
  readonly id: string
  readonly key: string | null
}

/** Everything that a request has left in the database, with each charge's id replaced by the name of its phase. */
export async function observeTrial(trial: PlanTrial): Promise<Observed> {
  const [row] = await trial.database.rows<KeyRow>(
    'SELECT id, key, status, recovery_point, state::text, trail, intent FROM pawl.idempotency_keys WHERE scope = $1',
    [trial.scope],
  )
  if (row === undefined) return { key: null, snapshot: await snapshotOf(trial, NO_KEY) }
  const trail = row.trail.map(({ p, s }) => ({ point: p, skipped: s === true }))
  const { status, intent } = row
  return { key: { status, trail, intent }, snapshot: await snapshotOf(trial, row) }
}

/** The charges that were executed, in order. */
export async function chargesOf(trial: PlanTrial): Promise<Charge[]> {
  const ledger = await trial.provider.ledger()
  return ledger.map(({ id, key, amount }) => ({ phase: phaseNumbered(trial, amount), id, key }))
}

/** How many requests of a phase arrived at the provider, executed or not. */
export async function countRequests(trial: PlanTrial, phase: string): Promise<number> {
  const requests = await trial.provider.requests()
  const numbers = requests.map(({ body }) => (JSON.parse(body) as { readonly amount: number }).amount)
  return numbers.filter((number) => phaseNumbered(trial, number) === phase).length
}

/** The engine's own record of what it settled. */
export async function effectsOf(
  trial: PlanTrial,
): Promise<{ phase: string; provider_key: string; reference: string | null }[]> {
  return trial.database.rows(
    'SELECT phase, provider_key, reference FROM pawl.effects WHERE scope = $1 ORDER BY created_at',
    [trial.scope],
  )
}

interface KeyRow {
  readonly id: string
  readonly key: string
  readonly status: string
  readonly recovery_point: string
  readonly state: string
  readonly trail: readonly { readonly p: string; readonly s?: true }[]
  readonly intent: { readonly kind: string; readonly phase: string } | null
}

/** Stands for a key that has just started: if it has no row, nothing else may be there. */
const NO_KEY: KeyRow = {
  id: randomUUID(),
  key: '',
  status: 'running',
  recovery_point: 'started',
  state: '{}',
  trail: [],
  intent: null,
}

async function snapshotOf(trial: PlanTrial, row: KeyRow): Promise<Snapshot> {
  const { database, scope } = trial
  const charges = await chargesOf(trial)
  const facts = await database.rows<{ phase: string; n: number; json: string }>(
    'SELECT phase, n, value::text AS json FROM facts WHERE run = $1',
    [runOf({ scope, keyId: row.id })],
  )
  const totals = await database.rows<{ name: string; amount: number }>(
    'SELECT name, amount FROM totals WHERE scope = $1',
    [scope],
  )
  const jobs = await database.rows<{ id: string; name: string; json: string }>(
    'SELECT id, name, payload::text AS json FROM pawl.staged_jobs WHERE key_id = $1 ORDER BY seq',
    [row.id],
  )
  const named = (json: string) =>
    charges.reduce((text, { id, phase }) => text.replaceAll(id, chargeOf(phase)), json)
  return {
    point: row.recovery_point,
    skipped: row.trail.at(-1)?.s === true,
    stateJson: openedJson({ id: row.id, scope, key: row.key }, 'state', row.state),
    facts: inOrder(facts.map((fact) => ({ ...fact, json: named(fact.json) }))),
    totals: Object.fromEntries(totals.map(({ name, amount }) => [name, amount])),
    jobs: jobs.map(({ id, name, json }) => ({ name, json: openedJson({ id, scope }, 'payload', json) })),
    effects: (await effectsOf(trial)).map(({ phase }) => phase),
  }
}

function phaseNumbered({ plan }: PlanTrial, number: number): string {
  return plan.phases[number - 1]?.name ?? 'none'
}
