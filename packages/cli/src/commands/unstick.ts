import type { CallVerdict, Intervention, JsonValue } from '@pawl/core'
import { becauseOf, becauseOptions } from '../because.js'
import { CliError, usageError } from '../cli-error.js'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { reportIntervention } from '../intervene.js'
import { keyOptions, keyOrAllArguments, keyReferenceOf } from '../key-arguments.js'
import { parseJson, parseText } from '../parse/value.js'
import { allOptions, refuseFilters, steerKeys } from '../steer-keys.js'

export const unstickCommand = defineCommand({
  name: 'unstick',
  summary: 'stuck → running: resume from the last recovery point',
  args: keyOrAllArguments,
  options: {
    ...keyOptions,
    ...becauseOptions,
    'not-executed': flag('the call in doubt did not happen: make it again, under a new provider key'),
    result: value('JSON', parseJson, 'the call in doubt did happen, and would have returned this'),
    phase: value('NAME', parseText, 'the phase of that call, to make sure that it is the one you mean'),
    ...allOptions,
  },
  details: [
    'Attempts and age start again from zero. The application’s engines run the key, not this tool.',
    'A call whose outcome is unknown is never repeated automatically: find out at the provider what became of it, and say so with --not-executed or --result.',
    'With --all, every stuck key that matches the filters of pawl list is unstuck, and each gets its own record; keys with a call in doubt are left alone. Try --dry-run first.',
  ],
  exits: {
    [EXIT.findings]: 'with --all: some keys were left alone',
    [EXIT.failed]: 'there is no such key, it is not stuck, or you have to say what became of its call',
  },
  async run({ args, options }, context) {
    const verdict = verdictOf(options)
    const because = becauseOf(options, context)
    const how = { dryRun: options['dry-run'] }
    if (options.all) {
      refuseOneVerdictForAll(verdict)
      return steerKeys(options, context, {
        verb: 'unstuck',
        take: (operator, key) => operator.unstick(key, because, verdict, how),
      })
    }
    refuseFilters(options)
    const of = keyReferenceOf(args, options)
    const intervention = await context.withDatabase(({ operator }) =>
      operator.unstick(of, because, verdict, how),
    )
    explainRefusal(intervention, verdict)
    return reportIntervention(
      intervention,
      of,
      'Unstuck. A completer or the client’s next retry will resume it.',
    )
  },
})

function verdictOf(options: {
  readonly 'not-executed': boolean
  readonly result: JsonValue | undefined
  readonly phase: string | undefined
}): CallVerdict | undefined {
  const { result, phase } = options
  const of = phase === undefined ? {} : { phase }
  if (options['not-executed'] && result !== undefined) {
    throw usageError('--not-executed and --result cannot be combined: the call either happened or did not.')
  }
  if (options['not-executed']) return { type: 'not_executed', ...of }
  if (result !== undefined) return { type: 'executed', result, ...of }
  if (phase === undefined) return undefined
  throw usageError('--phase needs --not-executed or --result: say what became of its call.')
}

/**
 * What one call returned is not what another returned; and only for one phase's provider can it be known that no call was
 * made.
 */
function refuseOneVerdictForAll(verdict: CallVerdict | undefined): void {
  if (verdict?.type === 'executed')
    throw usageError('--result belongs to one call, so it cannot be combined with --all.')
  if (verdict !== undefined && verdict.phase === undefined)
    throw usageError('--not-executed with --all needs --phase: say which call was not made.')
}

/** Says the same as the operator's detail, in terms of the command line. */
function explainRefusal(intervention: Intervention, verdict: CallVerdict | undefined): void {
  if (intervention.type !== 'refused' || intervention.key.status !== 'stuck') return
  const { call } = intervention.key
  if (verdict !== undefined && call === null) {
    const detail =
      'none of its calls is in doubt. Unstick it without --not-executed and --result: if a call may have been made, the key ' +
      'becomes stuck again and says which.'
    throw new CliError('refused', `Nothing was changed: ${detail}`)
  }
  if (verdict === undefined && call?.known !== 'returned') {
    const detail = `whether the call${call === null ? '' : ` of ${call.phase}`} was executed is not known. Find out at the provider, then add --not-executed or --result JSON.`
    throw new CliError('refused', `Nothing was changed: ${detail}`)
  }
}
