import type { JsonObject, JsonValue, RetryReason } from '@pawl/core'
import { FIRST_DETOUR_FACT, FIRST_LOOSE_FACT, STRAY_FACT, WRITING_DETOURS } from './body-style.js'
import {
  isWanted,
  type ResponsePlan,
  type Source,
  type TransactionPlan,
  type Trouble,
  valueOf,
} from './phase-plan.js'
import type { PipelinePlan } from './pipeline-plan.js'
import { callsInVain, isKnownUnmade, rollbacks } from './setbacks.js'
import type { Write } from './unsent-writes.js'

/** A row of `facts`. Its value is JSON text here, because values are stored byte for byte. */
export interface Fact {
  readonly phase: string
  readonly n: number
  readonly json: string
  /** Nobody awaited its statement: the fact may be missing. If it is there, the transaction of its phase wrote it. */
  readonly optional?: true
}

/** Everything that is committed once a recovery point is reached, until the next one is. */
export interface Snapshot {
  readonly point: string
  /** Whether the point was reached without its phase. */
  readonly skipped: boolean
  readonly stateJson: string
  /** In the order of `inOrder`. In place of a charge's id it has `chargeOf` its phase. */
  readonly facts: readonly Fact[]
  readonly totals: Readonly<Record<string, number>>
  readonly jobs: readonly { readonly name: string; readonly json: string }[]
  /** The phases whose effect is settled: each has one effect at the provider. */
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
  /** One per recovery point, from `started` to where it ends. The trail is all their points except the first. */
  readonly snapshots: readonly [Snapshot, ...Snapshot[]]
  readonly end: ExpectedEnd
  /** A fault between the declaration of a call and its settling makes the request stuck before one of these phases. */
  readonly mayBeStuckAt: readonly string[]
  /** What a client is told that asks again at once, in a run that no fault disturbs. */
  readonly setbacks: readonly RetryReason[]
  /**
   * What is right as well where a connection is lost: the transaction of `onError` is repeated then, without the trouble that the try
   * before it was to meet. Where no fault strikes, nothing but `end` is right.
   */
  readonly unlessTroubled: Expected | null
}

/** Stands for the id that the provider returned. */
export const chargeOf = (phase: string): string => `<charge of ${phase}>`

/**
 * What a plan leads to. The model knows the design, and nothing of the engine. `unsentIn` names what the committed transaction of a
 * phase is without: statements that never reached the database, because of an exception that the body swallowed.
 */
export function referenceModel(
  plan: PipelinePlan,
  input: JsonValue,
  unsentIn: (phase: string) => ReadonlySet<Write> = () => ALL_SENT,
): Expected {
  const seen = asStored(input)
  const snapshots: [Snapshot, ...Snapshot[]] = [STARTED]
  const mayBeStuckAt: string[] = []
  const setbacks: RetryReason[] = []
  const endsWith = (end: ExpectedEnd): Expected => ({
    snapshots,
    end,
    mayBeStuckAt,
    setbacks,
    unlessTroubled: null,
  })
  const answers = (
    phase: string,
    run: TransactionPlan,
    response: ResponsePlan,
    charged: boolean,
  ): Expected => {
    const before = last(snapshots)
    const after = written(before, phase, run, seen, charged, unsentIn(phase))
    snapshots.push({ ...after, point: 'finished', skipped: false })
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
      if (unmade.length > 0 && phase.guarantee === 'at_most_once' && !isKnownUnmade(phase)) {
        const stuck = endsWith({ status: 'stuck', reason: 'unknown_outcome', phase: name })
        const plain = withoutTrouble(plan, name)
        return { ...stuck, unlessTroubled: plain === null ? null : referenceModel(plain, input, unsentIn) }
      }
      for (const reason of unmade) {
        setbacks.push(reason)
        // The provider answers that it has no such charge, which counts only once it has been quiet for long enough.
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
    const after = written(before, name, run, seen, charged, unsentIn(name))
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

/** The plan whose `onError` of this phase meets no trouble. Returns null if the phase has no such `onError`. */
function withoutTrouble(plan: PipelinePlan, name: string): PipelinePlan | null {
  const phases = plan.phases.map((phase) => {
    if (phase.name !== name || phase.kind !== 'foreign' || phase.refusal?.kind !== 'declined') return phase
    const { refusal } = phase
    return { ...phase, refusal: { ...refusal, onError: { ...refusal.onError, trouble: null } } }
  })
  return phases.some((phase, index) => phase !== plan.phases[index]) ? { ...plan, phases } : null
}

/** What one transaction adds: all of it is there, or nothing. */
function written(
  before: Snapshot,
  phase: string,
  { work, style, trouble }: TransactionPlan,
  input: JsonValue,
  charged: boolean,
  unsent: ReadonlySet<Write>,
): Omit<Snapshot, 'point' | 'skipped'> {
  const json = (source: Source) => JSON.stringify(valueOf(source, input, stateOf(before)))
  const charge = charged ? [JSON.stringify({ charge: chargeOf(phase) })] : []
  const isRaced = style.awaits === 'race'
  const facts = [...charge, ...work.facts.map(json)]
    .map((value, n) => ({ phase, n, json: value, ...(isRaced && OPTIONAL) }))
    .filter(({ n }) => !unsent.has(`fact ${n}`))
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
  const strays = leavesStray(trouble, unsent) ? [{ phase, n: STRAY_FACT, json: JSON.stringify('stray') }] : []
  const totals = { ...before.totals }
  for (const [index, { name, amount }] of work.totals.entries())
    if (!unsent.has(`total ${index}`)) totals[name] = (totals[name] ?? 0) + amount
  return {
    stateJson: before.stateJson,
    facts: [...before.facts, ...facts, ...detours, ...loose, ...strays],
    totals,
    jobs: [...before.jobs, ...work.jobs.map(({ name, payload }) => ({ name, json: json(payload) }))],
    effects: charged ? [...before.effects, phase] : before.effects,
  }
}

const ALL_SENT: ReadonlySet<Write> = new Set()
const OPTIONAL = { optional: true } as const

/** The row after an error can commit only where the statement that was to fail never did. */
function leavesStray(trouble: Trouble | null, unsent: ReadonlySet<Write>): boolean {
  if (trouble?.mishap.kind !== 'sql_error') return false
  const { afterwards } = trouble.mishap
  const isWritten = afterwards === 'queries_on' || afterwards === 'queries_on_swallowed'
  return isWritten && unsent.has('error') && !unsent.has('stray')
}

/** The snapshot to expect: of the facts that nobody awaited, it keeps those that are there. */
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

/** Header names are in lower case. JSON has its content type, unless the plan has another. */
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

/** What JSON turns it into: it has only one zero. */
const asStored = (value: JsonValue) => JSON.parse(JSON.stringify(value)) as JsonValue

function last(snapshots: readonly [Snapshot, ...Snapshot[]]): Snapshot {
  return snapshots.at(-1) ?? snapshots[0]
}
