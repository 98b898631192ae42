import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SEED } from '../../support/amounts.js'
import { AWAITS, DETOURS, type Style } from './body-style.js'
import { isImmediate } from './meet-mishap.js'
import {
  AFTER_ERROR,
  BUSY_ANSWERS,
  IMMEDIATE_ERRORS,
  type Mishap,
  type PhasePlan,
  SQL_STATES,
  type TransactionPlan,
  type Trouble,
} from './phase-plan.js'
import { type PipelinePlan, pipelinePlan, troubledPlan } from './pipeline-plan.js'
import { PLAIN_STYLE } from './random-style.js'
import { referenceModel } from './reference-model.js'

/** Enough to meet the rarest kind, in about a second. */
const SAMPLES = 1_500

/** Enough for a share that does not depend on the seed. */
const TROUBLED_SAMPLES = 400

const GUARANTEES = ['keyed', 'queryable', 'at_most_once']

function namesOf(mishap: Mishap): string[] {
  return mishap.kind === 'sql_error' ? [mishap.error, `an error ${mishap.afterwards}`] : [mishap.kind]
}

/** How a body is written. */
function styleIn({ awaits, slow, detours, loose }: Style): string[] {
  return [
    `awaits: ${awaits}`,
    ...(slow ? ['slow'] : []),
    ...detours.map((detour) => `detour: ${detour}`),
    ...loose.map(({ at }) => `loose: ${typeof at === 'object' ? at.turns : at}`),
  ]
}

/** Whether it fails while queries that were started with it are under way, which no transaction may survive. */
function failsBesideQueries({ work, style, trouble }: TransactionPlan): boolean {
  if (trouble === null || trouble.mishap.kind === 'throws_at_once' || !isImmediate(trouble.mishap))
    return false
  const queries = work.facts.length + work.totals.length
  return (style.awaits === 'all' || style.awaits === 'race') && trouble.at !== 'lagging' && queries >= 2
}

const troubleIn = (where: string, trouble: Trouble | null) =>
  trouble === null ? [] : namesOf(trouble.mishap).map((name) => `${where}: ${name}`)

/** Names everything that a phase has in it. */
function kindsOf(phase: PhasePlan): string[] {
  const { isolation, when } = phase
  const kinds = [
    `isolation: ${isolation}`,
    `when: ${when !== null && typeof when === 'object' ? 'state' : when}`,
  ]
  if (phase.kind === 'local')
    return [...kinds, ...styleIn(phase.run.style), ...troubleIn('local', phase.run.trouble)]
  const { guarantee, refusal, settle } = phase
  const how = refusal?.kind === 'busy' ? refusal.onError : (refusal?.kind ?? 'executed')
  return [...kinds, `${guarantee}: ${how}`, ...styleIn(settle.style), ...troubleIn('settle', settle.trouble)]
}

/** The same for a pipeline, as far as it is run, and for how it ends. */
function kindsIn(plan: PipelinePlan): string[] {
  const { snapshots, end, setbacks } = referenceModel(plan, null)
  const points = snapshots.map(({ point }) => point)
  const last = plan.phases[points.filter((point) => point !== 'finished').length - 1]
  const run = plan.phases.filter(
    (phase) => phase === last || snapshots.some(({ point, skipped }) => point === phase.name && !skipped),
  )
  return [
    `phases: ${plan.phases.length}`,
    end.status === 'stuck' ? 'stuck' : last === undefined ? 'answered at the end' : 'answered early',
    ...(snapshots.some(({ skipped }) => skipped) ? ['skipped'] : []),
    ...setbacks,
    ...run.flatMap(kindsOf),
    ...(last === undefined ? troubleIn('finish', plan.finish.run.trouble) : []),
  ]
}

const sampled = fc.sample(pipelinePlan, { numRuns: SAMPLES, seed: SEED }).map(kindsIn)

test('random plans contain everything that a pipeline can have, and run it', () => {
  const met = new Set(sampled.flat())
  const sqlErrors = [...Object.keys(SQL_STATES), ...AFTER_ERROR.map((afterwards) => `an error ${afterwards}`)]
  const mishaps = [...IMMEDIATE_ERRORS, 'stream', 'retry_later', 'answers', ...sqlErrors]
  const wanted = [
    ...[1, 2, 3, 4, 5, 6, 7, 8].map((count) => `phases: ${count}`),
    'stuck',
    'answered at the end',
    'answered early',
    'skipped',
    'asked_by_phase',
    'transient_error',
    'unknown_error',
    'outcome_pending',
    ...['null', 'read committed', 'repeatable read', 'serializable'].map((level) => `isolation: ${level}`),
    ...['null', 'always', 'state'].map((when) => `when: ${when}`),
    ...['local', 'settle', 'finish'].flatMap((where) => mishaps.map((mishap) => `${where}: ${mishap}`)),
    ...AWAITS.map((awaits) => `awaits: ${awaits}`),
    ...DETOURS.map((detour) => `detour: ${detour}`),
    ...['first', 'middle', 'last', 'microtasks', 'immediates'].map((at) => `loose: ${at}`),
    'slow',
    ...GUARANTEES.flatMap((guarantee) =>
      ['executed', 'declined', ...BUSY_ANSWERS].map((how) => `${guarantee}: ${how}`),
    ),
  ]
  expect(wanted.filter((kind) => !met.has(kind))).toEqual([])
})

test('most plans run to their end: early answers and stuck calls leave the later phases something to do', () => {
  const ended = sampled.filter((all) => all.includes('answered at the end'))
  expect(ended.length).toBeGreaterThan(SAMPLES / 2)
})

function bodiesOf({ phases, finish }: PipelinePlan): TransactionPlan[] {
  return [...phases.map((phase) => (phase.kind === 'local' ? phase.run : phase.settle)), finish.run]
}

test('bodies that fail beside their queries are frequent enough for a few dozen plans to have one', () => {
  const troubled = fc.sample(troubledPlan, { numRuns: TROUBLED_SAMPLES, seed: SEED })
  const prone = troubled.filter((plan) => bodiesOf(plan).some(failsBesideQueries))
  expect(prone.length).toBeGreaterThan(TROUBLED_SAMPLES / 8)
})

/** The smallest plan that has this in one of its phases. */
function smallestWith(has: (phase: PhasePlan) => boolean): PipelinePlan {
  const without = fc.property(pipelinePlan, ({ phases }) => !phases.some(has))
  const { counterexample } = fc.check(without, { numRuns: SAMPLES, seed: SEED })
  if (counterexample === null) throw new Error('no plan has it')
  return counterexample[0]
}

test('a plan shrinks to the one phase that matters, with nothing else in it', () => {
  const commits = 'each'
  const nothing = { facts: [], totals: [], jobs: [] }
  const plain = { work: nothing, style: PLAIN_STYLE, trouble: null, ending: { kind: 'advance', patch: null } }
  const response = { status: 200, body: { kind: 'none' }, headers: {} }
  const finish = {
    isolation: null,
    run: { work: nothing, style: PLAIN_STYLE, trouble: null, ending: { kind: 'respond', response } },
  }
  const queryable = smallestWith((phase) => phase.kind === 'foreign' && phase.guarantee === 'queryable')
  const foreign = { kind: 'foreign', guarantee: 'queryable', refusal: null, settle: plain }
  expect(queryable).toEqual({
    phases: [{ name: 'p1', isolation: null, when: null, ...foreign }],
    finish,
    commits,
  })

  const troubled = smallestWith((phase) => phase.kind === 'local' && phase.run.trouble !== null)
  const run = { ...plain, trouble: { mishap: { kind: 'throws' }, at: 'first', times: 1 } }
  const local = { kind: 'local', run }
  expect(troubled).toEqual({
    phases: [{ name: 'p1', isolation: null, when: null, ...local }],
    finish,
    commits,
  })
})
