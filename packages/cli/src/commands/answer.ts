import type { JsonValue, OperatorResponse, Wipe } from '@pawl/core'
import { becauseOf, becauseOptions } from '../because.js'
import { defineCommand, required, value, values } from '../command.js'
import { EXIT } from '../exit-code.js'
import { reportIntervention } from '../intervene.js'
import { keyOptions, keyOrAllArguments, keyReferenceOf } from '../key-arguments.js'
import { parseDuration } from '../parse/duration.js'
import { parseHeader, parseJson, parseOneOf, parseWholeNumber } from '../parse/value.js'
import { allOptions, refuseFilters, steerKeys } from '../steer-keys.js'

/** The statuses that can be stored as a final answer. */
const MIN_STATUS = 200
const MAX_STATUS = 499

export const answerCommand = defineCommand({
  name: 'answer',
  summary: 'stuck → finished, with a response that you give; no further phase runs',
  args: keyOrAllArguments,
  options: {
    ...keyOptions,
    ...becauseOptions,
    status: required(
      'N',
      parseWholeNumber(MIN_STATUS, MAX_STATUS),
      `the response’s status, ${MIN_STATUS} to ${MAX_STATUS}`,
    ),
    body: value('JSON', parseJson, 'the response’s body; default: none'),
    header: values("'NAME: VALUE'", parseHeader, 'a header of the response; may be repeated'),
    retention: value('DURATION', parseDuration, 'how long the response is replayed; default: 400d'),
    wipe: value(
      'WHAT',
      parseOneOf(['nothing', 'input', 'all']),
      'what is gone from the row with it: input, or all, which is the state and last error as well; default: nothing',
    ),
    ...allOptions,
  },
  details: [
    'Use it for a stuck key that nobody will finish, whatever made it stuck.',
    'Every later retry of the client gets this response. What phases wrote and what providers did stays as it is: if it has to be undone, undo it first.',
    'pawl does not know the pipeline’s own setting of wipe: pass --wipe where it has one.',
    'With --all, every stuck key that matches the filters of pawl list gets this response, and each gets its own record. Try --dry-run first.',
  ],
  exits: {
    [EXIT.failed]: 'there is no such key, it is not stuck, or the response cannot be stored',
    [EXIT.findings]: 'with --all: some keys were left alone',
  },
  async run({ args, options }, context) {
    const because = becauseOf(options, context)
    const response = responseOf(options)
    const how = { dryRun: options['dry-run'] }
    if (options.all) {
      return steerKeys(options, context, {
        verb: 'answered',
        take: (operator, key) => operator.answer(key, because, response, how),
      })
    }
    refuseFilters(options)
    const of = keyReferenceOf(args, options)
    const intervention = await context.withDatabase(({ operator }) =>
      operator.answer(of, because, response, how),
    )
    return reportIntervention(
      intervention,
      of,
      `Answered. From now on, retries of its client get ${response.status}.`,
    )
  },
})

function responseOf(options: {
  readonly status: number
  readonly body: JsonValue | undefined
  readonly header: readonly (readonly [string, string])[]
  readonly retention: number | undefined
  readonly wipe: Wipe | undefined
}): OperatorResponse {
  const { status, body, header, retention, wipe } = options
  return {
    status,
    ...(header.length > 0 && { headers: Object.fromEntries(header) }),
    ...(body !== undefined && { body }),
    ...(retention !== undefined && { retentionMs: retention }),
    ...(wipe !== undefined && { wipe }),
  }
}
