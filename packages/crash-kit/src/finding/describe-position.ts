import type { PipelineShape } from '../history.js'
import type { PlannedFault } from '../plan/planned-fault.js'
import { type NamedPosition, parsePosition } from '../plan/named-position.js'
import { CONNECTION_WORDS, STEP_WORDS, type StepWords } from './step-words.js'

/** What describing a position needs to know about the pipeline. */
type Phases = Pick<PipelineShape, 'points' | 'foreign'>

/**
 * Describes where a position is, in words that follow a fault's title.
 *
 * @param attempt 0 in the first run of the request, more in a recovery, where the key may already exist.
 *
 * @example
 * describePosition(parsePosition('charge_created/call#1:after'), shape)
 * // 'after charge_created was called, before it was settled'
 */
export function describePosition(position: NamedPosition, shape: Phases, attempt = 0): string {
  const { when } = position
  if (position.step === 'commit' && when === 'after') return afterCommit(position, shape)
  return `${stepInWords(position, when, shape, attempt)}${when === 'after' ? followedBy(position, shape, attempt) : ''}`
}

/** `conjunction` is `before`, `after`, or `when` for what goes wrong in the step itself. */
function stepInWords(
  { phase, step, occurrence }: NamedPosition,
  conjunction: 'before' | 'after' | 'when',
  shape: Phases,
  attempt: number,
): string {
  const words = STEP_WORDS.get(step)
  if (words === undefined) return `in ${phase}, ${conjunction} ${step}${timesOf(occurrence)}`
  if (isAskedAgain(step, occurrence, attempt)) {
    const times = occurrence > 1 ? timesOf(occurrence) : ' again'
    return `${conjunction} the key was asked for${times}`
  }
  const what = words.what.replace('{phase}', phase).replace('{nth}', ordinal(occurrence))
  const times = words.what.includes('{nth}') ? '' : timesOf(occurrence)
  return `${leadOf(words, phase, shape)}${conjunction} ${what}${times}`
}

/** The same statement reserves the key or finds that it is taken. The position alone does not show which. */
function isAskedAgain(step: string, occurrence: number, attempt: number): boolean {
  return step === 'insert_key' && (attempt > 0 || occurrence > 1)
}

/** Names the place, unless the rest of the text does. */
function leadOf({ place }: StepWords, phase: string, shape: Phases): string {
  switch (place) {
    case 'phase':
      return ''
    case 'transaction':
      return `${whereOf(phase, shape)}, `
    default:
      return place === phase ? '' : `${whereOf(phase, shape)}, `
  }
}

/**
 * Returns the title of a case: its faults, and where each strikes.
 *
 * @example
 * titleOf([{ attempt: 0, fault: 'crash', at: 'charge_created/call#1:after' }], () => 'crash', shape)
 * // 'crash after charge_created was called, before it was settled'
 */
export function titleOf(
  plan: readonly PlannedFault[],
  titles: (faultId: string) => string,
  shape: Phases,
): string {
  if (plan.length === 0) return 'without a fault'
  return plan.map((planned) => titleOfFault(planned, titles(planned.fault), shape)).join(', then ')
}

function titleOfFault({ at, attempt }: PlannedFault, title: string, shape: Phases): string {
  const position = parsePosition(at)
  const where = position.when === 'before' ? duringStep(position, title, shape, attempt) : null
  return `${title} ${where ?? describePosition(position, shape, attempt)}${duringRecovery(attempt)}`
}

/**
 * If the title says what goes wrong with the step itself, `before` would contradict it: COMMIT's answer is not lost before COMMIT.
 * Returns null if the title does not.
 */
function duringStep(position: NamedPosition, title: string, shape: Phases, attempt: number): string | null {
  const { phase, step, occurrence } = position
  const times = occurrence === 1 ? '' : `, the ${ordinal(occurrence)} time`
  switch (step) {
    case 'call':
      if (/\bprovider\b/i.test(title)) return `in the call of ${phase}${times}`
      return /\bcall\b/i.test(title) ? `in ${phase}${times}` : null
    case 'reconcile':
      return /\bprovider\b/i.test(title) ? `when asked about ${phase}${times}` : null
    default:
      if (!/\bCOMMIT\b/.test(title)) return null
      // Other statements commit by themselves.
      return step === 'commit'
        ? `${whereOf(phase, shape)}${times}`
        : stepInWords(position, 'when', shape, attempt)
  }
}

function duringRecovery(attempt: number): string {
  if (attempt === 0) return ''
  return attempt === 1 ? ', during the recovery' : `, during the ${ordinal(attempt)} recovery`
}

function afterCommit({ phase, occurrence }: NamedPosition, shape: Phases): string {
  const times = timesOf(occurrence)
  if (phase === 'finished') return `after the response was stored${times}`
  return `after ${phase} committed${times}${beforeNext(phase, shape)}`
}

/** Describes what comes next, where that says more than what came before. */
function followedBy({ phase, step, occurrence }: NamedPosition, shape: Phases, attempt: number): string {
  switch (step) {
    case 'insert_key':
      return isAskedAgain(step, occurrence, attempt) ? '' : beforeNext('started', shape)
    case 'skip_phase':
      return beforeNext(phase, shape)
    case 'declare_call':
      return ', before it was made'
    case 'call':
      return ', before it was settled'
    case 'claim_jobs':
      return ', before it delivered them'
    default:
      return ''
  }
}

function beforeNext(point: string, { points, foreign }: Phases): string {
  const index = points.indexOf(point)
  const next = index === -1 ? undefined : points[index + 1]
  if (next === undefined) return ''
  const guarantee = foreign.find(({ phase }) => phase === next)?.guarantee
  if (guarantee === undefined) return `, before ${next} began`
  return guarantee === 'keyed' ? `, before ${next} was called` : `, before the call of ${next} was declared`
}

/** A phase may have the name of one of the engine's connections. */
function whereOf(phase: string, { points }: Phases): string {
  return (points.includes(phase) ? undefined : CONNECTION_WORDS.get(phase)) ?? `in ${phase}`
}

function timesOf(occurrence: number): string {
  return occurrence === 1 ? '' : ` the ${ordinal(occurrence)} time`
}

function ordinal(number: number): string {
  const isTeen = Math.floor(number / 10) % 10 === 1
  const suffix = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][number % 10] ?? 'th')
  return `${number}${suffix}`
}
