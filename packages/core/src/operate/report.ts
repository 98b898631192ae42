import { COUNT_LIMIT, DEFAULT_LIST_LIMIT, RETRIED_FOR_LONG_MS } from '../limits.js'
import { type KeyView, viewKey } from '../engine/key-view.js'
import { type Listing, listKeys } from '../storage/keys/list-keys.js'
import { countRows } from '../storage/keys/count-rows.js'
import { findOverdue } from '../storage/keys/find-overdue.js'
import { findRetried } from '../storage/keys/find-retried.js'
import { groupStuck } from '../storage/keys/group-stuck.js'
import { groupUnfinished } from '../storage/keys/group-unfinished.js'
import { DEFAULT_LAYOUT } from '../storage/schema/layout.js'
import { readLayout } from '../storage/schema/read-layout.js'
import type { Store } from '../storage/statement.js'
import type { KeyFilter, StatusReport } from './operator.js'
import { bounded, viewGroup } from './views.js'

/** How things stand. */
export async function reportStatus(store: Store): Promise<StatusReport> {
  const rows = await countRows(store)
  const groups = await groupUnfinished(store, null)
  const overdue = await findOverdue(store, 0)
  const retried = await findRetried(store, RETRIED_FOR_LONG_MS)
  let stuck = 0
  let running = 0
  for (const { counts } of groups) {
    stuck += counts.stuck
    running += counts.held + counts.backing_off + counts.unattended
  }
  return {
    at: new Date(rows.nowMs),
    layout: (await readLayout(store)) ?? DEFAULT_LAYOUT,
    unfinished: groups.map(viewGroup),
    unfinishedIsPartial: stuck >= COUNT_LIMIT || running >= COUNT_LIMIT,
    stuckBy: await groupStuck(store),
    finished: bounded(rows.finished),
    expired: bounded(rows.expired),
    oldestUnattended:
      overdue === null ? null : { scope: overdue.scope, key: overdue.key, sinceMs: overdue.sinceMs },
    retriedForLong: retried,
    jobs: { waiting: bounded(rows.waiting), dead: bounded(rows.dead), oldestDueMs: rows.oldestDueMs },
  }
}

/** The keys that a filter lets through. */
export async function listFiltered(store: Store, filter: KeyFilter): Promise<KeyView[]> {
  const { status = 'unfinished', limit = DEFAULT_LIST_LIMIT } = filter
  const listing: Listing = {
    pipeline: filter.pipeline ?? null,
    version: filter.version ?? null,
    recoveryPoint: filter.recoveryPoint ?? null,
    scope: filter.scope ?? null,
    stuckReason: filter.stuckReason ?? null,
    olderThanMs: filter.olderThanMs ?? null,
    unattendedOnly: status === 'unattended',
    limit,
  }
  switch (status) {
    case 'running':
    case 'unattended':
      return (await listKeys(store, 'running', listing)).map(viewKey)
    case 'stuck':
    case 'finished':
      return (await listKeys(store, status, listing)).map(viewKey)
    case 'unfinished': {
      const running = await listKeys(store, 'running', listing)
      const stuck = await listKeys(store, 'stuck', listing)
      const oldestFirst = [...running, ...stuck].toSorted((a, b) => a.createdMs - b.createdMs)
      return oldestFirst.slice(0, limit).map(viewKey)
    }
  }
}
