import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '../check-option.js'
import { disarmPromise } from '../disarm-promise.js'
import { isPlainObject } from '../is-plain-object.js'
import { MAX_DURATION_MS, MAX_INT32, MAX_STORED_BYTES } from '../limits.js'

/** So many at once, and as many again in each `perMs`, spread evenly. */
export interface RateLimit {
  readonly max: number
  readonly perMs: number
}

/**
 * How much one scope may have of one pipeline. What is left out is not limited.
 *
 * @example
 * const limits: PipelineLimits = { newKeys: { max: 10, perMs: 60_000 }, unfinished: 2 }
 */
export interface PipelineLimits {
  /** So many new keys at once, and as many again in each `perMs`, spread evenly. */
  readonly newKeys?: RateLimit
  /** So many unfinished keys at once: running, waiting for their next attempt, or stuck. */
  readonly unfinished?: number
  /** So many bytes of keys that are stored: a new key is refused where it would make them more. */
  readonly storedBytes?: number
}

/**
 * How much one scope may have, of all pipelines together. What is left out is not limited.
 *
 * @example
 * const limits: Limits = { newKeys: { max: 100, perMs: 60_000 }, unfinished: 50, storedBytes: 100_000_000 }
 */
export interface Limits extends PipelineLimits {
  /** So many look-ups of keys (`inspect`, and the status of a request over HTTP), whether or not the key exists. */
  readonly lookups?: RateLimit
}

/** One for all scopes, or one for each, such as by its plan. The function returns null for a scope without limits. */
export type LimitsOption = Limits | ((scope: string) => Limits | null)

/** The same for one pipeline. */
export type PipelineLimitsOption = PipelineLimits | ((scope: string) => PipelineLimits | null)

const NAMES_OF_PIPELINE = [
  'newKeys',
  'unfinished',
  'storedBytes',
] as const satisfies readonly (keyof Limits)[]
const NAMES = {
  engine: [...NAMES_OF_PIPELINE, 'lookups'],
  pipeline: NAMES_OF_PIPELINE,
} as const

/** Whether something is limited for an engine or for a pipeline. A look-up names no pipeline. */
export type LimitsOf = keyof typeof NAMES

/** Checks what was given. A function is asked at each request, and what it returns is checked then. */
export function checkLimitsOption(owner: OptionOwner, of: LimitsOf, option: unknown): void {
  if (option !== undefined && typeof option !== 'function') checkLimits(owner, 'limits', of, option)
}

/** `what`: how a complaint names it. */
export function checkLimits(by: OptionOwner, what: string, of: LimitsOf, limits: unknown): void {
  const owner = { ...by, where: `${by.where}: ${what}` }
  // A promise has no names that could be unknown, and would limit nothing.
  if (disarmPromise(limits) || !isPlainObject(limits)) {
    throw invalidOption(by, what, limits, `an object with some of ${NAMES[of].join(', ')}`)
  }
  checkKnownOptions(owner, limits, NAMES[of])
  const { newKeys, unfinished, storedBytes, lookups } = limits as Limits
  checkWholeNumber(owner, 'unfinished', unfinished, 1, MAX_INT32)
  checkWholeNumber(owner, 'storedBytes', storedBytes, 1, MAX_STORED_BYTES)
  checkRate(owner, 'newKeys', newKeys)
  checkRate(owner, 'lookups', lookups)
}

function checkRate(owner: OptionOwner, name: string, rate: RateLimit | undefined): void {
  if (rate === undefined) return
  checkKnownOptions({ ...owner, where: `${owner.where}: ${name}` }, rate, ['max', 'perMs'])
  for (const part of ['max', 'perMs'] as const)
    if (rate[part] === undefined)
      throw invalidOption(owner, `${name}.${part}`, rate[part], 'a whole number of 1 or more')
  checkWholeNumber(owner, `${name}.max`, rate.max, 1, MAX_INT32)
  checkWholeNumber(owner, `${name}.perMs`, rate.perMs, 1, MAX_DURATION_MS)
}
