import type { KeyView } from '@pawl/core'
import { MAX_CELL_WIDTH } from '../limits.js'
import { conditionCell } from './condition.js'
import type { Paint } from './paint.js'
import { safeText } from './safe-text.js'
import { table } from './table.js'
import { cutText } from './text-width.js'
import { durationText } from './time.js'

/** Keys as a table. Scope and key are never cut: other commands want them whole. */
export function renderKeys(keys: readonly KeyView[], now: Date, paint: Paint): readonly string[] {
  return table(
    [
      { title: 'SCOPE' },
      { title: 'KEY' },
      { title: 'PIPELINE' },
      { title: 'POINT' },
      { title: 'CONDITION' },
      { title: 'FENCE', align: 'right' },
      { title: 'AGE', align: 'right' },
      { title: 'LAST ERROR' },
    ],
    keys.map((key) => [
      key.scope,
      key.key,
      `${key.pipeline}@${key.version}`,
      key.recoveryPoint,
      conditionCell(key, now),
      String(key.fence),
      durationText(now.getTime() - key.createdAt.getTime()),
      cutText(safeText(key.lastError ?? ''), MAX_CELL_WIDTH),
    ]),
    paint,
  )
}
