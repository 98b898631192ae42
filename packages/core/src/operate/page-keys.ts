import { DEFAULT_LIST_LIMIT } from '../limits.js'
import { type KeyView, viewKey } from '../engine/key-view.js'
import { type ListCursor, type ListedKey, type Listing, listKeys } from '../storage/keys/list-keys.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { Store } from '../storage/statement.js'
import type { OptionOwner } from '../check-option.js'
import { readCursor, writeCursor } from './cursor.js'
import type { KeyFilter } from './operator.js'

/** A key as lists show it: without what its client sent and got. */
export interface KeySummary extends Omit<KeyView, 'input' | 'state' | 'response' | 'call'> {
  /** What is known of a call that is not settled, without its result. */
  readonly call: Omit<NonNullable<KeyView['call']>, 'result'> | null
  /** Null unless finished. */
  readonly responseStatus: number | null
}

/** Some keys of a list. */
export interface KeyPage {
  readonly keys: readonly KeySummary[]
  /** Where the list goes on: pass it as `after`. Null where it ends. */
  readonly next: string | null
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'page' }

/** The keys that a filter lets through, a page at a time: each page is found through the index, however many were before it. */
export async function pageKeys(store: Store, filter: KeyFilter, after: ListCursor | null): Promise<KeyPage> {
  const { limit = DEFAULT_LIST_LIMIT } = filter
  const listed = await listFiltered(store, { ...filter, limit: limit + 1 }, 'summary', after)
  const shown = listed.slice(0, limit)
  const last = listed.length > limit ? shown.at(-1) : undefined
  return {
    keys: shown.map(({ row }) => viewKeySummary(row)),
    next: last === undefined ? null : writeCursor([last.cursor.atUs, last.cursor.scope, last.cursor.key]),
  }
}

/** Where a list goes on; null for its beginning. */
export function readListCursor(after: string | undefined): ListCursor | null {
  if (after === undefined) return null
  const [atUs = '', scope = '', key = ''] = readCursor(OWNER, 'after', after, 3)
  return { atUs, scope, key }
}

/** The keys that a filter lets through, in the order of the list. */
export async function listFiltered(
  store: Store,
  filter: KeyFilter,
  how: 'whole' | 'summary',
  after: ListCursor | null = null,
): Promise<ListedKey[]> {
  const { status = 'unfinished', limit = DEFAULT_LIST_LIMIT } = filter
  const listing: Listing = {
    pipeline: filter.pipeline ?? null,
    version: filter.version ?? null,
    recoveryPoint: filter.recoveryPoint ?? null,
    scope: filter.scope ?? null,
    stuckReason: filter.stuckReason ?? null,
    olderThanMs: filter.olderThanMs ?? null,
    unattendedOnly: status === 'unattended',
    after,
    limit,
  }
  switch (status) {
    case 'running':
    case 'unattended':
      return listKeys(store, 'running', listing, how)
    case 'stuck':
    case 'finished':
      return listKeys(store, status, listing, how)
    case 'unfinished': {
      const running = await listKeys(store, 'running', listing, how)
      const stuck = await listKeys(store, 'stuck', listing, how)
      return [...running, ...stuck].toSorted((a, b) => inOrder(a.cursor, b.cursor)).slice(0, limit)
    }
  }
}

/** As the database orders them. Names are compared as bytes there. */
function inOrder(a: ListCursor, b: ListCursor): number {
  return (
    Number(a.atUs) - Number(b.atUs) ||
    Buffer.compare(Buffer.from(a.scope), Buffer.from(b.scope)) ||
    Buffer.compare(Buffer.from(a.key), Buffer.from(b.key))
  )
}

/** A key as lists show it. */
export function viewKeySummary(row: KeyRow): KeySummary {
  const { input: _input, state: _state, response, call, ...shown } = viewKey(row)
  return {
    ...shown,
    call: call === null ? null : { phase: call.phase, known: call.known, late: call.late },
    responseStatus: response?.status ?? null,
  }
}
