import type { IsolationLevel, JsonObject } from '@pawl/core'
import fc from 'fast-check'
import { jsonValue } from '../support/json.js'
import type { Style } from './body-style.js'
import {
  AFTER_ERROR,
  type Answer,
  BUSY_ANSWERS,
  type BusyError,
  type Ending,
  type FinishPlan,
  type ForeignPlan,
  IMMEDIATE_ERRORS,
  type LocalPlan,
  type Mishap,
  type PhasePlan,
  type Refusal,
  type ResponsePlan,
  type Source,
  SQL_STATES,
  type SqlError,
  TRANSIENT_STATUSES,
  type TransactionPlan,
  type Trouble,
  type When,
  type Work,
} from './phase-plan.js'
import { PLAIN_STYLE, style } from './random-style.js'

/** A pipeline as plain data. */
export interface PipelinePlan {
  /** There are 1 to 8, named `p1`, `p2` and so on by their place. */
  readonly phases: readonly PhasePlan[]
  readonly finish: FinishPlan
  /** Nothing that a request comes to may depend on it. */
  readonly commits: 'each' | 'fewest'
}

const MAX_PHASES = 8

/** Crashes, the trouble of a call and that of its settling stay well under the cap of attempts at one point. */
const MAX_TIMES = 2

/** There are few, so that phases overwrite and ask for each other's members. Some mean something to JavaScript. */
const memberName = fc.constantFrom('a', 'b', 'c', '', '__proto__', 'toJSON', 'é', '10', '\0', '\ud800')

/** A counterexample shrinks to the first. The higher its weight, the rarer are the others. */
function mostly<T>(usual: fc.Arbitrary<T>, weight: number, ...others: fc.Arbitrary<T>[]): fc.Arbitrary<T> {
  return fc.oneof(
    { withCrossShrink: true },
    { arbitrary: usual, weight },
    ...others.map((arbitrary) => ({ arbitrary, weight: 1 })),
  )
}

const source: fc.Arbitrary<Source> = mostly<Source>(
  jsonValue.map((value) => ({ from: 'plan', value })),
  2,
  fc.constant({ from: 'input' }),
  fc.constant({ from: 'state' }),
)

const work: fc.Arbitrary<Work> = fc.record({
  facts: fc.array(source, { maxLength: 2 }),
  totals: fc.array(
    fc.record({ name: fc.constantFrom('x', 'y', 'z'), amount: fc.integer({ min: -9, max: 9 }) }),
    {
      maxLength: 2,
    },
  ),
  jobs: fc.array(fc.record({ name: fc.constantFrom('mail', 'audit', 'é'), payload: source }), {
    maxLength: 2,
  }),
})

const mishap: fc.Arbitrary<Mishap> = mostly<Mishap>(
  // Half of all mishaps are of this kind: they come while what was sent with them is still under way.
  fc.record({ kind: fc.constantFrom(...IMMEDIATE_ERRORS, 'stream' as const) }),
  3,
  fc.constant({ kind: 'retry_later' }),
  fc.record({ kind: fc.constant('answers'), status: fc.constantFrom(...TRANSIENT_STATUSES) }),
  fc.record({
    kind: fc.constant('sql_error'),
    error: fc.constantFrom(...(Object.keys(SQL_STATES) as SqlError[])),
    afterwards: fc.constantFrom(...AFTER_ERROR),
  }),
)

const times = fc.integer({ min: 1, max: MAX_TIMES })

/** `calm` is the number of bodies without trouble for each body with some. */
const troubles = (calm: number): fc.Arbitrary<Trouble | null> =>
  mostly<Trouble | null>(
    fc.constant(null),
    calm,
    fc.record({ mishap, at: fc.constantFrom<Trouble['at'][]>('first', 'last', 'lagging'), times }),
  )

/** Text that HTTP can carry, including some beyond ASCII. */
const headerText = fc.string({
  unit: fc.constantFrom('a', 'Z', '0', ' ', '\t', '"', ',', ';', '\x80', 'é', '\xff'),
  maxLength: 6,
})

const headers = fc
  .uniqueArray(fc.tuple(fc.constantFrom('location', 'X-Trace', 'ETag', 'Content-Type'), headerText), {
    selector: ([name]) => name,
    maxLength: 3,
  })
  .map((members) => Object.fromEntries(members))

const finalStatus = fc
  .integer({ min: 200, max: 499 })
  .filter((status) => !(TRANSIENT_STATUSES as readonly number[]).includes(status))

/** We do not use fast-check's `binary`, because its table of all code points takes seconds to set up. */
const bodyText = fc.string({
  unit: fc.constantFrom('a', '"', '\\', '\0', '\r', '\n', 'é', '\u2028', '\ufffd', '\u{1f6b2}'),
  maxLength: 8,
})

const response: fc.Arbitrary<ResponsePlan> = fc.record({
  status: finalStatus,
  body: mostly<ResponsePlan['body']>(
    fc.constant({ kind: 'none' }),
    1,
    source.map((from) => ({ kind: 'json', source: from })),
    bodyText.map((text) => ({ kind: 'text', text })),
  ),
  headers,
})

const answer: fc.Arbitrary<Answer> = fc.record({ kind: fc.constant('respond'), response })

const patch: fc.Arbitrary<JsonObject | null> = fc.option(
  fc
    .array(fc.tuple(memberName, jsonValue), { maxLength: 3 })
    .map((members) => Object.fromEntries(members) as JsonObject),
  { nil: null },
)

/** Rare enough that most pipelines of eight phases come to their end. */
const ending: fc.Arbitrary<Ending> = mostly<Ending>(
  patch.map((value) => ({ kind: 'advance', patch: value })),
  14,
  answer,
)

const transactions = (calm: number): fc.Arbitrary<TransactionPlan> =>
  fc.record({ work, style, trouble: troubles(calm), ending })
const lastTransactions = (calm: number): fc.Arbitrary<TransactionPlan<Answer>> =>
  fc.record({ work, style, trouble: troubles(calm), ending: answer })

const isolation: fc.Arbitrary<IsolationLevel | null> = fc.constantFrom(
  null,
  'read committed',
  'repeatable read',
  'serializable',
)

const when: fc.Arbitrary<When> = mostly<When>(
  fc.constant(null),
  6,
  fc.constant('always'),
  fc.constant('never'),
  memberName.map((stateHas) => ({ stateHas })),
)

const busyError = fc.constantFrom<BusyError[]>(...TRANSIENT_STATUSES, 'broken_answer')

const refusals = (calm: number): fc.Arbitrary<Refusal | null> =>
  mostly<Refusal | null>(
    fc.constant(null),
    6,
    fc.record({
      kind: fc.constant('busy'),
      error: busyError,
      times,
      onError: fc.constantFrom(...BUSY_ANSWERS),
    }),
    // This refusal is over after a while, whatever the guarantee.
    fc.record({ kind: fc.constant('busy'), error: busyError, times, onError: fc.constant('not_executed') }),
    fc.record({ kind: fc.constant('declined'), onError: lastTransactions(calm) }),
  )

const locals = (calm: number): fc.Arbitrary<Omit<LocalPlan, 'name'>> =>
  fc.record({ kind: fc.constant('local'), isolation, when, run: transactions(calm) })

const foreigns = (calm: number): fc.Arbitrary<Omit<ForeignPlan, 'name'>> =>
  fc.record({
    kind: fc.constant('foreign'),
    isolation,
    when,
    guarantee: fc.constantFrom('keyed', 'queryable', 'at_most_once'),
    refusal: refusals(calm),
    settle: transactions(calm),
  })

/** A plan that has no phase, and only answers. */
export const EMPTY_PLAN: PipelinePlan = {
  commits: 'each',
  phases: [],
  finish: {
    isolation: null,
    run: {
      work: { facts: [], totals: [], jobs: [] },
      style: PLAIN_STYLE,
      trouble: null,
      ending: { kind: 'respond', response: { status: 200, body: { kind: 'none' }, headers: {} } },
    },
  },
}

/** Any pipeline. It shrinks to fewer phases, then to phases that do less. `calm` is as in `troubles`. */
function pipelinePlans(calm: number): fc.Arbitrary<PipelinePlan> {
  const phase = mostly<Omit<LocalPlan, 'name'> | Omit<ForeignPlan, 'name'>>(locals(calm), 1, foreigns(calm))
  return fc.record({
    phases: fc
      .array(phase, { maxLength: MAX_PHASES })
      // A minimum length would keep the array from dropping its last phases as well as its first ones.
      .filter((phases) => phases.length > 0)
      .map((phases) => phases.map((plan, index) => ({ name: `p${index + 1}`, ...plan }))),
    finish: fc.record({ isolation, run: lastTransactions(calm) }),
    commits: fc.constantFrom('each', 'fewest'),
  })
}

/** Most of their bodies succeed, so that most pipelines get far. */
export const pipelinePlan: fc.Arbitrary<PipelinePlan> = pipelinePlans(3)

/** Every other body meets trouble: for tests of bodies, where it does not matter how far a pipeline gets. */
export const troubledPlan: fc.Arbitrary<PipelinePlan> = pipelinePlans(1)

/** The same plan without statements whose order depends on time, so that every run passes the same positions. */
export function withoutRaces(plan: PipelinePlan): PipelinePlan {
  return withStyles(plan, (each) => ({
    ...each,
    awaits: each.awaits === 'race' ? 'all' : each.awaits,
    loose: [],
  }))
}

/** Whether a body may end while one of its own statements is under way, which deserves a lint and breaks nothing. */
export function forgetsAwaits({ phases, finish }: PipelinePlan): boolean {
  const bodies = phases.flatMap((each) => {
    if (each.kind === 'local') return [each.run]
    return each.refusal?.kind === 'declined' ? [each.settle, each.refusal.onError] : [each.settle]
  })
  return [...bodies, finish.run].some(
    ({ style: { awaits, loose }, trouble }) =>
      awaits === 'race' || loose.length > 0 || (awaits === 'all' && trouble !== null),
  )
}

function withStyles(
  { phases, finish, commits }: PipelinePlan,
  change: (style: Style) => Style,
): PipelinePlan {
  const changed = <Plan extends TransactionPlan>(run: Plan): Plan => ({ ...run, style: change(run.style) })
  return {
    phases: phases.map((each) => {
      if (each.kind === 'local') return { ...each, run: changed(each.run) }
      const declined = each.refusal?.kind === 'declined' ? each.refusal : null
      return {
        ...each,
        settle: changed(each.settle),
        refusal: declined === null ? each.refusal : { ...declined, onError: changed(declined.onError) },
      }
    }),
    finish: { ...finish, run: changed(finish.run) },
    commits,
  }
}
