import type { JsonObject, JsonValue, RetryReason } from '@pawl/core'
import { FIRST_DETOUR_FACT, FIRST_LOOSE_FACT, WRITING_DETOURS } from './body-style.js'
import { isWanted, type ResponsePlan, type Source, type TransactionPlan, valueOf } from './phase-plan.js'
import type { PipelinePlan } from './pipeline-plan.js'
import { callsInVain, isKnownUnmade, rollbacks } from './setbacks.js'

/** A row of `facts`. Values are JSON text here, since they are stored to the byte. */
export interface Fact {
  readonly phase: string
  readonly n: number
  readonly json: string
  /** Nobody awaited its statement: it is there or not, and in the transaction of its phase if it is. */
  readonly optional?: true
}

/** All that is committed once a recovery point is reached, and until the next one is. */
export interface Snapshot {
  readonly point: string
  /** Whether the point was reached without its phase. */
  readonly skipped: boolean
  readonly stateJson: string
  /** In the order of `inOrder`. A charge's id is `chargeOf` its phase. */
  readonly facts: readonly Fact[]
  readonly totals: Readonly<Record<string, number>>
  readonly jobs: readonly { readonly name: string; readonly json: string }[]
  /** The phases whose effect is settled: one each at the provider. */
  readonly effects: readonly string[]
}

interface ExpectedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type ExpectedEnd =
  | { readonly status: 'finished'; readonly response: ExpectedResponse }
  /** `phase` cannot be run: its call may have been made, and must not be made again. */
  | { readonly status: 'stuck'; readonly reason: 'unknown_outcome'; readonly phase: string }

/** What must have become of a request once everything has recovered. */
export interface Expected {
  /** One per recovery point, from `started` to where it ends: the trail is their points but the first. */
  readonly snapshots: readonly [Snapshot, ...Snapshot[]]
  readonly end: ExpectedEnd
  /** A fault between the declaration of a call and its settling ends the request, stuck, before one of these phases. */
  readonly mayBeStuckAt: readonly string[]
  /** What a client is told, that asks again at once, in a run that no fault disturbs. */
  readonly setbacks: readonly RetryReason[]
}

/** Stands for the id that the provider gave. */
export const chargeOf = (phase: string): string => `<charge of ${phase}>`

/** What a plan comes to. It knows the design, and nothing of the engine. */
export function referenceModel(plan: PipelinePlan, input: JsonValue): Expected {
  const seen = asStored(input)
  const snapshots: [Snapshot, ...Snapshot[]] = [STARTED]
  const mayBeStuckAt: string[] = []
  const setbacks: RetryReason[] = []
  const endsWith = (end: ExpectedEnd): Expected => ({ snapshots, end, mayBeStuckAt, setbacks })
  const answers = (
    phase: string,
    run: TransactionPlan,
    response: ResponsePlan,
    charged: boolean,
  ): Expected => {
    const before = last(snapshots)
    snapshots.push({ ...written(before, phase, run, seen, charged), point: 'finished', skipped: false })
    return endsWith({ status: 'finished', response: responseOf(response, seen, before) })
  }

  for (const phase of plan.phases) {
    const { name } = phase
    const before = last(snapshots)
    if (!isWanted(phase.when, stateOf(before))) {
      snapshots.push({ ...before, point: name, skipped: true })
      continue
    }
    if (phase.kind === 'foreign') {
      if (phase.guarantee === 'at_most_once') mayBeStuckAt.push(name)
      const unmade = callsInVain(phase)
      if (unmade.length > 0 && phase.guarantee === 'at_most_once' && !isKnownUnmade(phase))
        return endsWith({ status: 'stuck', reason: 'unknown_outcome', phase: name })
      for (const reason of unmade) {
        setbacks.push(reason)
        // The provider says that it has no such charge, which counts only once it has been quiet for long enough.
        if (phase.guarantee === 'queryable' && !isKnownUnmade(phase)) setbacks.push('outcome_pending')
      }
      if (phase.refusal?.kind === 'declined') {
        const { onError } = phase.refusal
        return answers(name, onError, onError.ending.response, false)
      }
    }
    const run = phase.kind === 'local' ? phase.run : phase.settle
    const charged = phase.kind === 'foreign'
    setbacks.push(...rollbacks(run, charged))
    if (run.ending.kind === 'respond') return answers(name, run, run.ending.response, charged)
    const after = written(before, name, run, seen, charged)
    const { patch } = run.ending
    const stateJson = patch === null ? before.stateJson : JSON.stringify({ ...stateOf(before), ...patch })
    snapshots.push({ ...after, point: name, skipped: false, stateJson })
  }

  const { run } = plan.finish
  setbacks.push(...rollbacks(run))
  return answers('finished', run, run.ending.response, false)
}

const STARTED: Snapshot = {
  point: 'started',
  skipped: false,
  stateJson: '{}',
  facts: [],
  totals: {},
  jobs: [],
  effects: [],
}

/** What one transaction adds, all of it or nothing. */
function written(
  before: Snapshot,
  phase: string,
  { work, style }: TransactionPlan,
  input: JsonValue,
  charged: boolean,
): Omit<Snapshot, 'point' | 'skipped'> {
  const json = (source: Source) => JSON.stringify(valueOf(source, input, stateOf(before)))
  const charge = charged ? [JSON.stringify({ charge: chargeOf(phase) })] : []
  const isRaced = style.awaits === 'race'
  const facts = [...charge, ...work.facts.map(json)].map((value, n) => ({
    phase,
    n,
    json: value,
    ...(isRaced && OPTIONAL),
  }))
  const detours = style.detours.flatMap((detour, index) =>
    WRITING_DETOURS.includes(detour)
      ? [{ phase, n: FIRST_DETOUR_FACT + index, json: JSON.stringify(detour) }]
      : [],
  )
  const loose = style.loose.map((_, index) => ({
    phase,
    n: FIRST_LOOSE_FACT + index,
    json: JSON.stringify('loose'),
    ...OPTIONAL,
  }))
  const totals = { ...before.totals }
  for (const { name, amount } of work.totals) totals[name] = (totals[name] ?? 0) + amount
  return {
    stateJson: before.stateJson,
    facts: [...before.facts, ...facts, ...detours, ...loose],
    totals,
    jobs: [...before.jobs, ...work.jobs.map(({ name, payload }) => ({ name, json: json(payload) }))],
    effects: charged ? [...before.effects, phase] : before.effects,
  }
}

const OPTIONAL = { optional: true } as const

/** A snapshot as it may be seen: of the facts that nobody awaited, those are left that are seen. */
export function asSeen(wanted: Snapshot | undefined, seen: Pick<Snapshot, 'facts'>): Snapshot | undefined {
  if (wanted === undefined) return undefined
  const facts = wanted.facts
    .filter(({ phase, n, optional }) => optional !== true || seen.facts.some(isAt(phase, n)))
    .map(({ phase, n, json }) => ({ phase, n, json }))
  return { ...wanted, facts }
}

const isAt = (phase: string, n: number) => (fact: Fact) => fact.phase === phase && fact.n === n

/** Phases are named by their place. */
const turn = (phase: string) => (phase === 'finished' ? Infinity : Number(phase.slice(1)))

/** In the order of phases and places, whatever the order in which they were written. */
export function inOrder(facts: readonly Fact[]): Fact[] {
  return facts.toSorted((one, other) => turn(one.phase) - turn(other.phase) || one.n - other.n)
}

/** Header names in lower case; JSON says that it is, unless the plan says otherwise. */
function responseOf(
  { status, body, headers }: ResponsePlan,
  input: JsonValue,
  before: Snapshot,
): ExpectedResponse {
  const given = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name.toLowerCase(), text]))
  switch (body.kind) {
    case 'none':
      return { status, headers: given, body: '' }
    case 'text':
      return { status, headers: given, body: body.text }
    case 'json':
      return {
        status,
        headers: { 'content-type': 'application/json; charset=utf-8', ...given },
        body: JSON.stringify(valueOf(body.source, input, stateOf(before))),
      }
  }
}

const stateOf = ({ stateJson }: Snapshot) => JSON.parse(stateJson) as JsonObject

/** What JSON makes of it: there is one zero. */
const asStored = (value: JsonValue) => JSON.parse(JSON.stringify(value)) as JsonValue

function last(snapshots: readonly [Snapshot, ...Snapshot[]]): Snapshot {
  return snapshots.at(-1) ?? snapshots[0]
}
