import { viewKey } from '../engine/key-view.js'
import { viewIntervention } from '../engine/view-intervention.js'
import { COUNT_LIMIT, MAX_SHOWN_WITH_KEY, RETRIED_FOR_LONG_MS } from '../limits.js'
import { findEffectsOfKey } from '../storage/effects/find-effects-of-key.js'
import { findInterventions } from '../storage/interventions/find-interventions.js'
import { findJobsOfKey } from '../storage/jobs/find-jobs-of-key.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { countRows } from '../storage/keys/count-rows.js'
import { findOverdue } from '../storage/keys/find-overdue.js'
import { findRetried } from '../storage/keys/find-retried.js'
import { groupStuck } from '../storage/keys/group-stuck.js'
import { groupUnfinished } from '../storage/keys/group-unfinished.js'
import { DEFAULT_LAYOUT } from '../storage/schema/layout.js'
import { readLayout } from '../storage/schema/read-layout.js'
import type { Store } from '../storage/statement.js'
import type { KeyReport, StatusReport } from './operator.js'
import { bounded, viewEffect, viewGroup, viewJob } from './views.js'

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

/** A key with everything that is known about it. */
export async function reportKey(store: Store, row: KeyRow): Promise<KeyReport> {
  const effects = await findEffectsOfKey(store, row, MAX_SHOWN_WITH_KEY)
  const jobs = await findJobsOfKey(store, row, MAX_SHOWN_WITH_KEY)
  const interventions = await findInterventions(store, row, MAX_SHOWN_WITH_KEY)
  return {
    key: viewKey(row),
    effects: effects.map(viewEffect),
    jobs: jobs.map(viewJob),
    interventions: interventions.map(viewIntervention),
  }
}
