import type { KeyFilter } from '@pawl/core'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT } from '../limits.js'
import { filterOf, filterOptions } from '../key-filter.js'
import { parseOneOf, parseWholeNumber } from '../parse/value.js'
import { hasLongName, renderKeys } from '../render/keys.js'
import { keyToJson } from '../render/to-json.js'

const STATUSES = [
  'unfinished',
  'running',
  'unattended',
  'stuck',
  'finished',
] as const satisfies readonly NonNullable<KeyFilter['status']>[]

export const listCommand = defineCommand({
  name: 'list',
  summary: 'keys that match all filters, oldest first',
  args: [],
  options: {
    status: value('STATUS', parseOneOf(STATUSES), `${STATUSES.join(', ')}; default: unfinished`),
    ...filterOptions,
    limit: value(
      'N',
      parseWholeNumber(1, MAX_LIST_LIMIT),
      `at most this many; default: ${DEFAULT_LIST_LIMIT}`,
    ),
    ids: flag('also show the id of each key; --json always has it'),
  },
  details: [
    'unattended: the key is due and nobody holds it; a completer takes it over. stuck: a person has to decide, and unsticks or answers it.',
    'On a terminal, long scopes and keys are shortened. --ids also shows the ids, which pawl show --id takes.',
    'Inputs, states and bodies are never in a list: see pawl show --reveal.',
  ],
  exits: { [EXIT.ok]: 'also when nothing matches' },
  async run({ options }, { paint, isTerminal, withDatabase }) {
    const { status, limit = DEFAULT_LIST_LIMIT } = options
    const filter = { ...filterOf(options), ...(status !== undefined && { status }), limit }
    const { keys, now } = await withDatabase(async (database) => ({
      keys: await database.operator.list(filter),
      now: await database.now(),
    }))
    const isCut = keys.length === limit
    const view = { now, paint, withIds: options.ids, isShort: isTerminal }
    const lines = keys.length === 0 ? ['No key matches.'] : [...renderKeys(keys, view)]
    if (isTerminal && !options.ids && keys.some(hasLongName))
      lines.push('', 'Long names are shortened here. --ids shows the ids, which pawl show --id takes.')
    if (isCut) lines.push('', `These are the oldest ${limit}; there may be more. Raise --limit to see them.`)
    return { exit: EXIT.ok, lines, json: { keys: keys.map((key) => keyToJson(key, false)), limit } }
  },
})
