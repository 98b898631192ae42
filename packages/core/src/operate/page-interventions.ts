import {
  checkDate,
  checkKnownOptions,
  checkText,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import { isUuid } from '../is-uuid.js'
import { viewIntervention } from '../engine/view-intervention.js'
import { DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT, MAX_REASON_LENGTH } from '../limits.js'
import {
  type InterventionListing,
  listInterventions,
  type ListedIntervention,
} from '../storage/interventions/list-interventions.js'
import type { Store } from '../storage/statement.js'
import { microseconds } from './microseconds.js'
import type { InterventionFilter, InterventionPage, RecordedIntervention } from './audit.js'
import { checkWindow } from './check-arguments.js'
import { readCursor, writeCursor } from './cursor.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'interventions' }
const OPTION_NAMES = [
  'from',
  'to',
  'action',
  'actor',
  'scope',
  'limit',
  'after',
] as const satisfies readonly (keyof InterventionFilter)[]

export function checkInterventionFilter(filter: InterventionFilter): InterventionListing {
  checkKnownOptions(OWNER, filter, OPTION_NAMES)
  const { from, to, limit = DEFAULT_LIST_LIMIT, after } = filter
  if (from !== undefined) checkDate(OWNER, 'from', from)
  if (to !== undefined) checkDate(OWNER, 'to', to)
  if (from !== undefined && to !== undefined) checkWindow(OWNER.where, { from, to })
  for (const name of ['action', 'actor', 'scope'] as const) {
    if (filter[name] !== undefined) checkText(OWNER, name, filter[name], MAX_REASON_LENGTH)
  }
  checkWholeNumber(OWNER, 'limit', limit, 1, MAX_LIST_LIMIT)
  return {
    fromUs: from === undefined ? null : microseconds(from),
    toUs: to === undefined ? null : microseconds(to),
    action: filter.action ?? null,
    actor: filter.actor ?? null,
    scope: filter.scope ?? null,
    after: after === undefined ? null : cursorOf(after),
    limit,
  }
}

function cursorOf(after: string): NonNullable<InterventionListing['after']> {
  const [atUs = '', id = ''] = readCursor(OWNER, 'after', after, 2)
  if (!isUuid(id)) throw invalidOption(OWNER, 'after', after, 'the cursor that the page before came with')
  return { atUs, id }
}

/** What people did, the latest first, a page at a time. */
export async function pageInterventions(
  store: Store,
  listing: InterventionListing,
): Promise<InterventionPage> {
  const { limit } = listing
  const listed = await listInterventions(store, { ...listing, limit: limit + 1 })
  const shown = listed.slice(0, limit)
  const last = listed.length > limit ? shown.at(-1) : undefined
  return {
    interventions: shown.map(viewRecorded),
    next: last === undefined ? null : writeCursor([last.cursor.atUs, last.cursor.id]),
  }
}

function viewRecorded(row: ListedIntervention): RecordedIntervention {
  const { id, keyId, scope, key } = row
  return { id, keyId, scope: scope === '' ? null : scope, key, ...viewIntervention(row) }
}
