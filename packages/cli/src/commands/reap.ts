import { becauseOf, becauseOptions } from '../because.js'
import { defineCommand, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { parseText } from '../parse/value.js'
import { facts } from '../render/table.js'

const DEFAULT_REASON = 'pawl reap'

export const reapCommand = defineCommand({
  name: 'reap',
  summary: 'one round of the reaper: delete finished keys past their expiry',
  args: [],
  options: {
    actor: becauseOptions.actor,
    reason: value('TEXT', parseText, `why; default: ${DEFAULT_REASON}`),
  },
  details: [
    'It never touches a running or a stuck key. The application’s own reaper does the same on its own.',
  ],
  exits: {},
  async run({ options }, context) {
    const because = becauseOf({ actor: options.actor, reason: options.reason ?? DEFAULT_REASON }, context)
    const counts = await context.withDatabase(({ operator }) => operator.reap(because))
    const pairs = [
      ['Deleted keys', String(counts.deleted)],
      ['Kept by rows of the application', String(counts.held)],
      ['Deleted effects', String(counts.effectsDeleted)],
    ] as const
    return { exit: EXIT.ok, lines: facts(pairs, context.paint), json: counts }
  },
})
