import { checkKnownOptions, checkWholeNumber, type OptionOwner } from '../check-option.js'
import { DEFAULT_TOP_SCOPES, MAX_TOP_SCOPES } from '../limits.js'
import {
  type DuplicateCounts,
  findDuplicatesByMinute,
  findDuplicatesByPipeline,
  findTopScopes,
  type WindowMs,
} from '../storage/duplicates/find-duplicates.js'
import type { Store } from '../storage/statement.js'
import type { DuplicatesWindow, ScopeDuplicates } from './audit.js'
import { checkWindow } from './check-arguments.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'duplicates' }

/** A window that was checked. */
interface CheckedWindow extends WindowMs {
  readonly top: number
}

export function checkDuplicatesWindow(window: DuplicatesWindow): CheckedWindow {
  checkKnownOptions(OWNER, window, ['from', 'to', 'top'])
  checkWindow(OWNER.where, window)
  const { from, to, top = DEFAULT_TOP_SCOPES } = window
  checkWholeNumber(OWNER, 'top', top, 1, MAX_TOP_SCOPES)
  return { fromMs: from.getTime(), toMs: to.getTime(), top }
}

/** The scopes that sent most duplicates, with what they were for and when they came. */
export async function readDuplicates(
  store: Store,
  { top, ...window }: CheckedWindow,
): Promise<readonly ScopeDuplicates[]> {
  const scopes = await findTopScopes(store, window, top)
  if (scopes.length === 0) return []
  const pipelines = await findDuplicatesByPipeline(store, scopes, window)
  const minutes = await findDuplicatesByMinute(store, scopes, window)
  return scopes.map((scope) => {
    const byPipeline = pipelines
      .filter((each) => each.scope === scope)
      .map(({ pipeline, ...counts }) => ({ pipeline, ...countsOf(counts) }))
    return {
      scope,
      ...summed(byPipeline),
      byPipeline,
      minutes: minutes
        .filter((each) => each.scope === scope)
        .map(({ minuteMs, ...counts }) => ({ at: new Date(minuteMs), ...countsOf(counts) })),
    }
  })
}

const countsOf = ({ replayed, inFlight, mismatched }: DuplicateCounts): DuplicateCounts => ({
  replayed,
  inFlight,
  mismatched,
})

function summed(counts: readonly DuplicateCounts[]): DuplicateCounts {
  const sum = (of: keyof DuplicateCounts): number => counts.reduce((total, each) => total + each[of], 0)
  return { replayed: sum('replayed'), inFlight: sum('inFlight'), mismatched: sum('mismatched') }
}
