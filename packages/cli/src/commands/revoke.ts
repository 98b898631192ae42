import { becauseOf, becauseOptions } from '../because.js'
import { defineCommand } from '../command.js'
import { EXIT } from '../exit-code.js'
import { reportIntervention } from '../intervene.js'
import { dryRunOption } from '../steer-keys.js'
import { keyArguments, keyOptions, keyReferenceOf } from '../key-arguments.js'

export const revokeCommand = defineCommand({
  name: 'revoke',
  summary: 'take the lease from a holder that is known to be dead',
  args: keyArguments,
  options: { ...keyOptions, ...becauseOptions, ...dryRunOption },
  details: [
    'A lease runs out by itself. Use this when you know that its holder is gone and do not want to wait.',
    'If the holder is alive after all, it is fenced off: it cannot write any more, but a call that it has already made cannot be undone.',
  ],
  exits: { [EXIT.failed]: 'there is no such key, or nobody holds it' },
  async run({ args, options }, context) {
    const of = keyReferenceOf(args, options)
    const intervention = await context.withDatabase(({ operator }) =>
      operator.revoke(of, becauseOf(options, context), { dryRun: options['dry-run'] }),
    )
    return reportIntervention(
      intervention,
      of,
      'Revoked. A completer or the client’s next retry will resume it.',
    )
  },
})
