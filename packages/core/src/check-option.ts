import { MAX_TIMER_MS } from './limits.js'
import { PawlError, type PawlErrorCode } from './errors.js'
import { unstorableIn } from './storable-text.js'

/** Collects where an option is set, so that every complaint names it the same way. */
export interface OptionOwner {
  readonly code: Extract<
    PawlErrorCode,
    'PAWL_INVALID_OPTION' | 'PAWL_INVALID_PIPELINE' | 'PAWL_INVALID_REQUEST'
  >
  /** Such as `createEngine` or `pipeline 'create-ride', phase 'charge_created'`. */
  readonly where: string
}

export function invalidOption(owner: OptionOwner, option: string, got: unknown, takes: string): PawlError {
  return new PawlError(owner.code, `${owner.where}: ${option} is ${show(got)}; it takes ${takes}.`)
}

export function checkKnownOptions(owner: OptionOwner, options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new PawlError(
      owner.code,
      `${owner.where}: the options are ${show(options)}; they have to be an object.`,
    )
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) {
      throw new PawlError(
        owner.code,
        `${owner.where}: unknown option '${name}'. The options are ${known.join(', ')}.`,
      )
    }
  }
}

export function checkFunction(owner: OptionOwner, option: string, value: unknown): void {
  if (typeof value !== 'function') throw invalidOption(owner, option, value, 'a function')
}

export function checkOptionalFunction(owner: OptionOwner, option: string, value: unknown): void {
  if (value !== undefined) checkFunction(owner, option, value)
}

export function checkWholeNumber(
  owner: OptionOwner,
  option: string,
  value: unknown,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): void {
  if (value === undefined) return
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) {
    throw invalidOption(owner, option, value, `a whole number of ${least} or more`)
  }
  if (value > most) throw invalidOption(owner, option, value, `at most ${most}`)
}

/** Checks the duration of a timer or of a PostgreSQL time-out. */
export function checkTimerMs(owner: OptionOwner, option: string, value: unknown, least = 1): void {
  checkWholeNumber(owner, option, value, least, MAX_TIMER_MS)
}

export function checkOneOf(
  owner: OptionOwner,
  option: string,
  value: unknown,
  choices: readonly string[],
): void {
  if (value === undefined || (typeof value === 'string' && choices.includes(value))) return
  throw invalidOption(owner, option, value, `one of ${choices.map((choice) => `'${choice}'`).join(', ')}`)
}

/** Accepts what PostgreSQL's `text` can hold and a person has written. */
export function checkText(owner: OptionOwner, option: string, value: unknown, maxLength: number): void {
  const takes = `a text of 1 to ${maxLength} characters`
  if (typeof value !== 'string' || value.trim() === '') throw invalidOption(owner, option, value, takes)
  if (value.length > maxLength) throw invalidOption(owner, option, `${value.length} characters`, takes)
  if (unstorableIn(value) !== null)
    throw invalidOption(owner, option, value, `${takes}, without NUL and lone surrogates`)
}

export function checkDate(owner: OptionOwner, option: string, value: unknown): void {
  if (value instanceof Date && !Number.isNaN(value.getTime())) return
  throw invalidOption(owner, option, value, 'a valid Date')
}

/** A string that is taken for false would change what was meant only to be shown. */
export function checkFlag(owner: OptionOwner, option: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean')
    throw invalidOption(owner, option, value, 'true or false')
}

function show(value: unknown): string {
  // It may be a connection string in the wrong place, whose password must not end up in a log.
  if (typeof value === 'string') return value.includes('@') ? 'a string' : `'${value.slice(0, 80)}'`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object'
  return String(value)
}
