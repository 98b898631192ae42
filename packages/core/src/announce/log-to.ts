import { checkFunction, checkKnownOptions, checkOptionalFunction, type OptionOwner } from '../check-option.js'
import type { Redact } from '../redact-more.js'
import { safeError } from '../safe-error.js'
import { type PawlChannel, type PawlMessages, subscribe } from './announce.js'

/** A logger that is shaped like pino's: fields first, then what they mean. */
export interface Logger {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** What else is kept out of logs. */
export interface LogOptions {
  /** What `redact` of `createEngine` is. Recorded errors come without what it takes out already, and thrown ones do with it. */
  readonly redact?: (text: string) => string
}

/** What a message becomes in a log. */
interface Line {
  readonly level: keyof Logger
  readonly text: string
  readonly fields: object
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'logTo' }

const LEVELS = ['info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[]

/**
 * Logs what happens outside of requests, and what goes wrong inside of them, of all engines of the process. Nothing that a
 * client or a provider sent is in it: keys and scopes are hashed, and errors are copied by `safeError`. Returns a function that
 * ends it.
 *
 * @example
 * const stop = logTo(pino())
 */
export function logTo(log: Logger, options: LogOptions = {}): () => void {
  for (const level of LEVELS)
    checkFunction(OWNER, level, (log as Partial<Logger> | null | undefined)?.[level])
  checkKnownOptions(OWNER, options, ['redact'])
  checkOptionalFunction(OWNER, 'redact', options.redact)
  const { redact = null } = options
  const stops = (Object.keys(LINES) as (keyof typeof LINES)[]).map((name) => listen(name, log, redact))
  return () => {
    for (const stop of stops) stop()
  }
}

function listen(name: keyof typeof LINES, log: Logger, redact: Redact | null): () => void {
  // What a channel carries is what its line is made of.
  const lineOf = LINES[name] as LineOf<PawlChannel>
  return subscribe(name, (message) => {
    const line = lineOf(message, (error) => (error == null ? {} : { err: safeError(error, redact) }))
    // Called as a method: loggers are classes.
    if (line !== null) log[line.level](line.fields, line.text)
  })
}

type LineOf<Name extends PawlChannel> = (
  message: PawlMessages[Name],
  /** The member of a line that has an error, as it may be logged. */
  errorOf: (error: unknown) => object,
) => Line | null

/** What is told of each channel; null where it is not worth a line. Those that are not here report what went as it should. */
const LINES = {
  'pawl:round': ({ service, counts }) =>
    Object.values(counts).some((count) => count > 0) ? info('background round', { service, counts }) : null,
  'pawl:round_failed': ({ service, error, failures }, errorOf) =>
    problem('a background round failed, and is tried again', { service, failures, ...errorOf(error) }),
  'pawl:stuck': (message) => problem('a request is stuck: a person has to decide', message),
  'pawl:job_dead': (message) => problem('a staged job was given up: a person has to decide', message),
  'pawl:job_failed': ({ error, ...job }, errorOf) =>
    warning('a staged job was not delivered, and is tried again', { ...job, ...errorOf(error) }),
  'pawl:phase_failed': ({ error, reason, ...at }, errorOf) => {
    const fields = { ...at, reason, ...errorOf(error) }
    if (reason !== 'asked_by_phase' && reason !== 'outcome_pending') return warning('a phase failed', fields)
    const asked = 'a phase asked for another attempt'
    return error == null ? info(asked, fields) : warning(asked, fields)
  },
  'pawl:retried_for_long': ({ error, ...at }, errorOf) =>
    warning('a request is retried again and again', { ...at, ...errorOf(error) }),
  'pawl:outcome_unknown': ({ error, ...at }, errorOf) =>
    warning('whether a call was executed will never be known; its phase went on without it', {
      ...at,
      ...errorOf(error),
    }),
  'pawl:commit_settled': (message) =>
    warning('a COMMIT got no answer, and the fence showed what became of it', message),
  'pawl:fenced_off': (message) =>
    warning('another holder took the key over, and this one wrote nothing', message),
  'pawl:refused': (message) => warning('a key runs under a version that is not registered here', message),
  'pawl:breaker': ({ state, error, ...counts }, errorOf) => {
    if (state === 'half_open') return null
    return state === 'opened'
      ? problem('the database is away: requests no longer wait for it', { ...counts, ...errorOf(error) })
      : info('the database is back', counts)
  },
  'pawl:reap_held': (message) => warning('expired keys cannot be deleted: other rows refer to them', message),
  'pawl:warning': ({ message, error }, errorOf) => warning(message, errorOf(error)),
} as const satisfies { readonly [Name in PawlChannel]?: LineOf<Name> }

const info = (text: string, fields: object): Line => ({ level: 'info', text, fields })
const warning = (text: string, fields: object): Line => ({ level: 'warn', text, fields })
const problem = (text: string, fields: object): Line => ({ level: 'error', text, fields })
