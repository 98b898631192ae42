import * as thisCore from '@pawl/core'
import type {
  CallContext,
  JsonObject,
  JsonValue,
  PhaseContext,
  PhaseSettings,
  Pipeline,
  PipelineSettings,
  TransactionContext,
} from '@pawl/core'
import type { Chances } from './chances.js'
import type { FactDatabase } from './fact-tables.js'
import { answerTo, BrokenAnswer, isPlanned, Refused } from './planned-errors.js'
import { type Core, doWork, runTransactionPlan } from './run-transaction-plan.js'
import { type FinishPlan, type ForeignPlan, isWanted, type LocalPlan, type Work } from './phase-plan.js'
import type { PipelinePlan } from './pipeline-plan.js'
import { UnsentWrites } from './unsent-writes.js'

/** What a call sends, which is the same at every attempt. */
interface ChargeBody {
  readonly keyId: string
  readonly phase: string
  /** The phase's place in the pipeline, from 1. */
  readonly number: number
}

/** Whoever executes the foreign effects. */
export interface ChargeProvider {
  /** Without a key, it executes each time. */
  charge(
    body: ChargeBody,
    options: { readonly idempotencyKey?: string; readonly signal: AbortSignal },
  ): Promise<{ readonly id: string }>
  find(idempotencyKey: string): Promise<{ readonly id: string } | null>
}

export interface BuildOptions {
  readonly provider: ChargeProvider
  readonly chances: Chances
  /** The copy of @pawl/core that is to run it. */
  readonly core?: Core
  readonly settings?: PipelineSettings
  /** Where bodies note what they did not send. */
  readonly unsentWrites?: UnsentWrites
}

/** The builder without the types that count phases: at compile time, nobody knows the names and state of a plan's phases. */
interface LooseBuilder {
  local(name: string, run: (context: Transaction) => unknown, options: object): LooseBuilder
  foreign(name: string, options: object): LooseBuilder
  finish(run: (context: Transaction) => unknown, options: object): Pipeline<FactDatabase, JsonValue>
}

type Phase = PhaseContext<JsonValue, JsonObject>
type Call = CallContext<JsonValue, JsonObject>
type Transaction = TransactionContext<FactDatabase, JsonValue, JsonObject>

/** Turns a plan into a pipeline that does what it says. */
export function buildPipeline(plan: PipelinePlan, options: BuildOptions): Pipeline<FactDatabase, JsonValue> {
  const { core = thisCore, settings = {}, unsentWrites = new UnsentWrites() } = options
  const parts: Parts = { ...options, core, unsentWrites }
  const empty = core.pawl<FactDatabase>().pipeline({
    name: 'random-pipeline',
    version: 1,
    commits: plan.commits,
    ...settings,
  })
  const full = plan.phases.reduce(
    (builder, phase, index) =>
      phase.kind === 'local' ? addLocal(builder, phase, parts) : addForeign(builder, phase, index + 1, parts),
    empty as unknown as LooseBuilder,
  )
  return addFinish(full, plan.finish, parts)
}

interface Parts extends BuildOptions {
  readonly core: Core
  readonly unsentWrites: UnsentWrites
}

function addLocal(builder: LooseBuilder, plan: LocalPlan, parts: Parts): LooseBuilder {
  const { name } = plan
  const run = (context: Transaction) => runTransactionPlan(plan.run, { ...parts, name, context })
  return builder.local(name, run, { ...settingsOf(plan), ...whenOf(plan) })
}

function addFinish(builder: LooseBuilder, plan: FinishPlan, parts: Parts): Pipeline<FactDatabase, JsonValue> {
  const run = (context: Transaction) => runTransactionPlan(plan.run, { ...parts, name: 'finished', context })
  return builder.finish(run, settingsOf(plan))
}

function addForeign(builder: LooseBuilder, plan: ForeignPlan, number: number, parts: Parts): LooseBuilder {
  const { name, guarantee, refusal } = plan
  const { core, provider } = parts
  return builder.foreign(name, {
    guarantee,
    call: async ({ keyId, idempotencyKey, signal }: Call) => {
      refuse(plan, keyId, idempotencyKey, parts)
      // A call that must not be repeated gets no key, so that the provider cannot hide a repetition.
      const key = guarantee === 'at_most_once' ? {} : { idempotencyKey }
      const { id } = await provider.charge({ keyId, phase: name, number }, { ...key, signal })
      return { id }
    },
    ...(guarantee === 'queryable'
      ? {
          reconcile: async ({ idempotencyKey }: Call) => {
            const charge = await provider.find(idempotencyKey)
            return charge === null ? core.absent() : core.found({ id: charge.id })
          },
        }
      : {}),
    settle: (context: Transaction & { readonly result: { readonly id: string } }) =>
      runTransactionPlan(plan.settle, { ...parts, name, context, charge: context.result.id }),
    reference: ({ id }: { readonly id: string }) => id,
    ...(refusal === null || (refusal.kind === 'busy' && refusal.onError === 'absent')
      ? {}
      : {
          // Errors that the plan knows nothing of come from faults, and are treated as usual.
          onError: async (context: Transaction & { readonly error: unknown }) =>
            isPlanned(context.error) ? onPlannedError(plan, context, parts) : undefined,
        }),
    ...settingsOf(plan),
    ...whenOf(plan),
  })
}

/** Refuses in place of the provider, which then never hears of the call. */
function refuse(
  { name, refusal }: ForeignPlan,
  keyId: string,
  providerKey: string,
  { chances }: Parts,
): void {
  if (refusal === null) return
  if (refusal.kind === 'declined') throw new Refused(402)
  const { error, times, onError } = refusal
  // Only a new provider key gets past a refusal that the provider keeps.
  const busy =
    onError === 'not_executed'
      ? chances.refuses(keyId, `${name} call`, providerKey, times)
      : chances.strikes(keyId, `${name} call`, times)
  if (busy) throw error === 'broken_answer' ? new BrokenAnswer() : new Refused(error)
}

const STRAY: Work = { facts: [{ from: 'plan', value: 'stray' }], totals: [], jobs: [] }

async function onPlannedError(
  { name, refusal }: ForeignPlan,
  context: Transaction & { readonly error: unknown },
  parts: Parts,
): Promise<unknown> {
  if (refusal === null) return undefined
  if (refusal.kind === 'declined') return runTransactionPlan(refusal.onError, { ...parts, name, context })
  // Nobody may ever see this row, because none of these answers is final.
  await doWork(STRAY, { name, context, unsent: new Set() })
  return answerTo(refusal.onError, context.error, parts.core)
}

function settingsOf({ isolation }: { readonly isolation: PhaseSettings['isolation'] | null }): PhaseSettings {
  return isolation == null ? {} : { isolation }
}

function whenOf({ when }: LocalPlan | ForeignPlan): { readonly when?: (context: Phase) => boolean } {
  return when === null ? {} : { when: ({ state }) => isWanted(when, state) }
}
