import { becauseOf, becauseOptions } from '../because.js'
import { usageError } from '../cli-error.js'
import { defineCommand, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { reportIntervention } from '../intervene.js'
import { keyArguments, keyOptions, keyReferenceOf } from '../key-arguments.js'
import { parseDuration } from '../parse/duration.js'
import { parseMoment } from '../parse/moment.js'
import { momentText } from '../render/time.js'
import { dryRunOption } from '../steer-keys.js'

export const extendCommand = defineCommand({
  name: 'extend',
  summary: 'keep a finished key, and the answer that retries get, for longer',
  args: keyArguments,
  options: {
    ...keyOptions,
    ...becauseOptions,
    until: value('TIME', parseMoment, 'the moment until which it is kept'),
    for: value('DURATION', parseDuration, 'the same, counted from now'),
    ...dryRunOption,
  },
  details: [
    'Say until when with --until or with --for. A key never expires earlier than before, and is kept for 400 days from now at most, as long as effects are kept by default.',
    'An expired key can be extended as long as the reaper has not deleted it.',
  ],
  exits: {
    [EXIT.failed]: 'there is no such key, it is not finished, or it cannot be kept until then',
  },
  async run({ args, options }, context) {
    const of = keyReferenceOf(args, options)
    const because = becauseOf(options, context)
    const until = untilOf(options)
    const { intervention, end } = await context.withDatabase(async ({ operator, now }) => {
      const moment = until instanceof Date ? until : new Date((await now()).getTime() + until)
      const extended = await operator.extend(of, because, moment, { dryRun: options['dry-run'] })
      return { intervention: extended, end: moment }
    })
    return reportIntervention(intervention, of, `Extended. It is kept until ${momentText(end)}.`)
  },
})

function untilOf(options: {
  readonly until: Date | undefined
  readonly for: number | undefined
}): Date | number {
  const { until, for: forMs } = options
  if (until !== undefined && forMs === undefined) return until
  if (until === undefined && forMs !== undefined) return forMs
  throw usageError('Say until when in exactly one way: --until TIME or --for DURATION.')
}
