import type { CallVerdict, Intervention, JsonValue } from '@pawl/core'
import { becauseOf, becauseOptions } from '../because.js'
import { CliError, usageError } from '../cli-error.js'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { reportIntervention } from '../intervene.js'
import { keyArguments, keyOptions, keyReferenceOf } from '../key-arguments.js'
import { parseJson, parseText } from '../parse/value.js'

export const resumeCommand = defineCommand({
  name: 'resume',
  summary: 'stuck → running: go on from the last recovery point',
  args: keyArguments,
  options: {
    ...keyOptions,
    ...becauseOptions,
    'not-executed': flag('the call in doubt did not happen: make it again, under a new provider key'),
    result: value('JSON', parseJson, 'the call in doubt did happen, and would have returned this'),
    phase: value('NAME', parseText, 'the phase of that call, to be sure that it is the one you mean'),
  },
  details: [
    'Attempts and age start anew. The application’s engines run it, not this tool.',
    'A call whose outcome is unknown is never repeated by itself: find out at the provider what became of it, and say so with --not-executed or --result.',
  ],
  exits: {
    [EXIT.failed]: 'there is no such key, it is not stuck, or what became of its call has to be said',
  },
  async run({ args, options }, context) {
    const of = keyReferenceOf(args, options)
    const verdict = verdictOf(options)
    const because = becauseOf(options, context)
    const intervention = await context.withDatabase(({ operator }) => operator.resume(of, because, verdict))
    explainRefusal(intervention, verdict)
    return reportIntervention(
      intervention,
      of,
      'Resumed. A completer, or the client’s next retry, goes on with it.',
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
    throw usageError('--not-executed and --result exclude each other: the call happened, or it did not.')
  }
  if (options['not-executed']) return { type: 'not_executed', ...of }
  if (result !== undefined) return { type: 'executed', result, ...of }
  if (phase === undefined) return undefined
  throw usageError('--phase is for --not-executed and --result: say what became of its call.')
}

/** The same as the operator's detail, in the words of the command line. */
function explainRefusal(intervention: Intervention, verdict: CallVerdict | undefined): void {
  if (intervention.type !== 'refused' || intervention.key.status !== 'stuck') return
  const { call } = intervention.key
  if (verdict !== undefined && call === null) {
    const detail =
      'no call of it is in doubt. Resume it without --not-executed and --result: if a call may have been made, the key ' +
      'is stuck again, and says which.'
    throw new CliError('refused', `Nothing was changed: ${detail}`)
  }
  if (verdict === undefined && call?.known !== 'returned') {
    const detail = `whether the call${call === null ? '' : ` of ${call.phase}`} was executed is not known. Find out at the provider, then add --not-executed or --result JSON.`
    throw new CliError('refused', `Nothing was changed: ${detail}`)
  }
}
