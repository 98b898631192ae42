import { becauseOf, becauseOptions } from '../because.js'
import { defineCommand, flag } from '../command.js'
import { EXIT } from '../exit-code.js'
import { reportIntervention } from '../intervene.js'
import { keyArguments, keyOptions, keyReferenceOf } from '../key-arguments.js'
import { dryRunOption } from '../steer-keys.js'

export const forgetCommand = defineCommand({
  name: 'forget',
  summary: 'delete a finished key: the next request with it runs again',
  args: keyArguments,
  options: {
    ...keyOptions,
    ...becauseOptions,
    'effects-undone': flag('you have undone at the provider what the key’s phases had done there'),
    ...dryRunOption,
  },
  details: [
    'Use it when a stored answer is wrong and its client has to try again with the same key. It never touches a running or a stuck key.',
    'A key whose phases had effects at a provider would have them again. It is forgotten only if you say that they were undone, such as by a refund. The effects stay on record with that moment, for pawl reconcile.',
    'Jobs that it staged are still delivered, and the next run stages its own.',
  ],
  exits: {
    [EXIT.failed]:
      'there is no such key, it is not finished, effects of it stand, or a row of yours refers to it',
  },
  async run({ args, options }, context) {
    const of = keyReferenceOf(args, options)
    const intervention = await context.withDatabase(({ operator }) =>
      operator.forget(of, becauseOf(options, context), {
        dryRun: options['dry-run'],
        effectsUndone: options['effects-undone'],
      }),
    )
    return reportIntervention(intervention, of, 'Forgotten. The next request with this key runs again.')
  },
})
