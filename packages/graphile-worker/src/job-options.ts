import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '@pawl/core/internal'

/** What graphile-worker can be told about a job. */
export interface GraphileJobOptions {
  /** Jobs of one queue run one after the other. Default: none, so they run side by side. */
  readonly queueName?: string
  /** How often graphile-worker tries the job. Default 25. */
  readonly maxAttempts?: number
  /** Smaller runs earlier. Default 0. */
  readonly priority?: number
  /** For the runner's `forbiddenFlags`. */
  readonly flags?: readonly string[]
}

/**
 * graphile-worker's columns are `smallint`: more would fail in the middle of the phase, with an error that names no
 * option.
 */
const MAX_SMALLINT = 32_767
const MIN_SMALLINT = -32_768
/** The longest name that graphile-worker's table of queues accepts, in characters. */
const MAX_QUEUE_NAME_LENGTH = 128

/** Checks what `jobOptions` returned for one job. */
export function checkJobOptions(owner: OptionOwner, given: unknown): GraphileJobOptions {
  // A promise has no options of its own to complain about, and everything it resolves to would be ignored.
  if (given instanceof Promise)
    throw invalidOption(owner, 'jobOptions', given, 'a function that is not async')
  checkKnownOptions(owner, given, ['queueName', 'maxAttempts', 'priority', 'flags'])
  const options = given as GraphileJobOptions
  const { queueName, maxAttempts, priority, flags } = options
  if (queueName !== undefined && !isQueueName(queueName))
    throw invalidOption(owner, 'queueName', queueName, `a name of 1 to ${MAX_QUEUE_NAME_LENGTH} characters`)
  checkWholeNumber(owner, 'maxAttempts', maxAttempts, 1, MAX_SMALLINT)
  checkWholeNumber(owner, 'priority', priority, MIN_SMALLINT, MAX_SMALLINT)
  if (flags !== undefined && !isListOfStrings(flags))
    throw invalidOption(owner, 'flags', flags, 'a list of strings')
  return options
}

function isQueueName(value: unknown): boolean {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_QUEUE_NAME_LENGTH
}

function isListOfStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
