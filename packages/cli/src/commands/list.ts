import type { KeyFilter, StuckReason } from '@pawl/core'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT } from '../limits.js'
import { parseDuration } from '../parse/duration.js'
import { parseOneOf, parseText, parseWholeNumber } from '../parse/value.js'
import { hasLongName, renderKeys } from '../render/keys.js'
import { keyToJson } from '../render/to-json.js'

const STATUSES = [
  'unfinished',
  'running',
  'abandoned',
  'stuck',
  'finished',
] as const satisfies readonly NonNullable<KeyFilter['status']>[]

/** A record, so that the compiler misses a reason that is new. */
const STUCK_REASONS = Object.keys({
  attempts_exhausted: true,
  abandoned: true,
  unknown_outcome: true,
  window_passed: true,
  transaction_ended: true,
} satisfies Record<StuckReason, true>) as StuckReason[]

export const listCommand = defineCommand({
  name: 'list',
  summary: 'keys that fit all filters, oldest first',
  args: [],
  options: {
    status: value('STATUS', parseOneOf(STATUSES), `${STATUSES.join(', ')}; default: unfinished`),
    pipeline: value('NAME', parseText, 'of this pipeline'),
    version: value('N', parseWholeNumber(1, 2 ** 31 - 1), 'pinned to this version'),
    point: value('NAME', parseText, 'at this recovery point'),
    scope: value('SCOPE', parseText, 'of this scope'),
    'stuck-reason': value('REASON', parseOneOf(STUCK_REASONS), STUCK_REASONS.join(', ')),
    'older-than': value('DURATION', parseDuration, 'reserved longer ago than this'),
    limit: value('N', parseWholeNumber(1, MAX_LIST_LIMIT), `at most so many; default: ${DEFAULT_LIST_LIMIT}`),
    ids: flag('show the id of each, too; --json always has it'),
  },
  details: [
    'The condition abandoned needs nobody: the key is due, and a completer takes it. stuck: abandoned needs a person: the key got too old. pawl abandon is what that person may do: answer it by hand.',
    'On a terminal, long scopes and keys are shortened. --ids shows what pawl show --id takes instead.',
    'Inputs, states and bodies are never in a list: see pawl show --reveal.',
  ],
  exits: { [EXIT.ok]: 'also when nothing fits' },
  async run({ options }, { paint, isTerminal, withDatabase }) {
    const filter = filterOf(options)
    const limit = filter.limit ?? DEFAULT_LIST_LIMIT
    const { keys, now } = await withDatabase(async (database) => ({
      keys: await database.operator.list(filter),
      now: await database.now(),
    }))
    const isCut = keys.length === limit
    const view = { now, paint, withIds: options.ids, isShort: isTerminal }
    const lines = keys.length === 0 ? ['No key fits.'] : [...renderKeys(keys, view)]
    if (isTerminal && !options.ids && keys.some(hasLongName))
      lines.push('', 'Long names are shortened here: --ids shows the ids, which pawl show --id takes.')
    if (isCut) lines.push('', `These are the oldest ${limit}; there may be more: --limit.`)
    return { exit: EXIT.ok, lines, json: { keys: keys.map((key) => keyToJson(key, false)), limit } }
  },
})

function filterOf(options: {
  readonly status: KeyFilter['status']
  readonly pipeline: string | undefined
  readonly version: number | undefined
  readonly point: string | undefined
  readonly scope: string | undefined
  readonly 'stuck-reason': StuckReason | undefined
  readonly 'older-than': number | undefined
  readonly limit: number | undefined
}): KeyFilter {
  const { status, pipeline, version, point, scope, limit } = options
  const stuckReason = options['stuck-reason']
  const olderThanMs = options['older-than']
  return {
    ...(status !== undefined && { status }),
    ...(pipeline !== undefined && { pipeline }),
    ...(version !== undefined && { version }),
    ...(point !== undefined && { recoveryPoint: point }),
    ...(scope !== undefined && { scope }),
    ...(stuckReason !== undefined && { stuckReason }),
    ...(olderThanMs !== undefined && { olderThanMs }),
    ...(limit !== undefined && { limit }),
  }
}
