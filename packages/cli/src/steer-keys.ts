import type { Intervention, KeyId, KeyView, Operator } from '@pawl/core'
import { CliError, usageError } from './cli-error.js'
import { type Context, flag, type Given, type Report, value } from './command.js'
import { describeError } from './describe-error.js'
import { EXIT } from './exit-code.js'
import { filterOf, filterOptions } from './key-filter.js'
import { DEFAULT_STEER_LIMIT, MAX_STEER_LIMIT } from './limits.js'
import { parseWholeNumber } from './parse/value.js'
import { counted } from './render/counted.js'
import { renderSteered } from './render/steered.js'

export const dryRunOption = { 'dry-run': flag('report what would be done, and change nothing') } as const

/** Options of a step that can be taken with several keys. */
export const allOptions = {
  all: flag('all stuck keys that match the filters, instead of one'),
  ...filterOptions,
  limit: value(
    'N',
    parseWholeNumber(1, MAX_STEER_LIMIT),
    `with --all: change nothing if more than this many match; default: ${DEFAULT_STEER_LIMIT}`,
  ),
  ...dryRunOption,
} as const

/** What became of one of several keys. */
export interface Steered {
  readonly key: KeyView
  readonly result: Intervention['type']
  readonly detail: string | null
}

interface Step {
  /** As in `Unstuck 3 keys`. */
  readonly verb: 'unstuck' | 'answered'
  readonly take: (operator: Operator, of: KeyId) => Promise<Intervention>
}

/**
 * Takes a step with every stuck key that matches, one after the other, each with its own record. A key that has
 * moved on meanwhile is left alone and reported. It stops when the database does not answer.
 */
export async function steerKeys(
  options: Given<typeof allOptions>,
  context: Context,
  step: Step,
): Promise<Report> {
  const filter = filterOf(options)
  if (Object.keys(filter).length === 0)
    throw usageError('--all needs a filter, such as --pipeline or --stuck-reason: say which keys you mean.')
  const { limit = DEFAULT_STEER_LIMIT, 'dry-run': isDry } = options
  return context.withDatabase(async ({ operator }) => {
    // One more than the limit shows whether there are more.
    const found = await operator.list({ ...filter, status: 'stuck', limit: limit + 1 })
    if (found.length > limit && !isDry) {
      throw new CliError(
        'refused',
        `Nothing was changed: more than ${limit} stuck keys match. Narrow the filters, or raise --limit (at most ${MAX_STEER_LIMIT}).`,
      )
    }
    const keys = found.slice(0, limit)
    const steered: Steered[] = []
    try {
      for (const key of keys) {
        const intervention = await step.take(operator, { keyId: key.keyId })
        const detail = 'detail' in intervention ? intervention.detail : null
        steered.push({ key, result: intervention.type, detail })
      }
    } catch (error) {
      // What was done before is done, and has to be reported.
      return {
        ...report(steered, keys.length, isDry, step, context),
        exit: EXIT.failed,
        error: describeError(error, context.schema),
      }
    }
    const said = report(steered, keys.length, isDry, step, context)
    if (found.length <= limit) return said
    return {
      ...said,
      lines: [
        ...said.lines,
        `More than ${limit} match: without --dry-run, nothing would be changed. Raise --limit.`,
      ],
    }
  })
}

/** Filters mean something only together with `--all`: without it, people would believe that they narrow something down. */
export function refuseFilters(options: Given<typeof allOptions>): void {
  const names = [...Object.keys(filterOptions), 'limit'] as (keyof typeof filterOptions | 'limit')[]
  const given = names.find((name) => options[name] !== undefined)
  if (given !== undefined) throw usageError(`--${given} can be used only with --all.`)
}

function report(
  steered: readonly Steered[],
  wanted: number,
  isDry: boolean,
  { verb }: Step,
  { paint }: Context,
): Report {
  const done = steered.filter(({ result }) => result === 'done' || result === 'would_be_done').length
  const left = steered.length - done
  const untried = wanted - steered.length
  const sum = isDry
    ? `${counted(done, 'key')} would be ${verb}. Nothing was changed; leave out --dry-run to do it.`
    : `${capitalised(verb)} ${counted(done, 'key')}.`
  return {
    exit: left > 0 ? EXIT.findings : EXIT.ok,
    lines: [
      ...(steered.length === 0 ? [] : [...renderSteered(steered, paint), '']),
      ...(wanted === 0 ? ['No stuck key matches. Nothing was changed.'] : [sum]),
      ...(left === 0
        ? []
        : [`${counted(left, 'key')} ${isDry ? 'would be' : left === 1 ? 'was' : 'were'} left alone.`]),
      ...(untried === 0 ? [] : [`${counted(untried, 'key')} ${untried === 1 ? 'was' : 'were'} not tried.`]),
    ],
    json: {
      dryRun: isDry,
      done: isDry ? 0 : done,
      left,
      untried,
      keys: steered.map(({ key: { keyId, scope, key, pipeline, version, point }, result, detail }) => ({
        keyId,
        scope,
        key,
        pipeline,
        version,
        point,
        result,
        detail,
      })),
    },
  }
}

function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
