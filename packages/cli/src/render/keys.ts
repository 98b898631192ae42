import type { KeyView } from '@pawl/core'
import { MAX_CELL_WIDTH, MAX_NAME_WIDTH } from '../limits.js'
import { conditionCell } from './condition.js'
import type { Paint } from './paint.js'
import { safeText } from './safe-text.js'
import { table } from './table.js'
import { cutMiddle, cutText, textWidth } from './text-width.js'
import { durationText } from './time.js'

interface View {
  readonly now: Date
  readonly paint: Paint
  readonly withIds: boolean
  /** For a terminal, where a line should stay one line. Programs want whole names. */
  readonly isShort: boolean
}

/** Whether the name is shortened on a terminal. */
export function hasLongName({ scope, key }: KeyView): boolean {
  return [scope, key].some((name) => textWidth(safeText(name)) > MAX_NAME_WIDTH)
}

/** Keys as a table. */
export function renderKeys(
  keys: readonly KeyView[],
  { now, paint, withIds, isShort }: View,
): readonly string[] {
  const nameText = (name: string) => (isShort ? cutMiddle(safeText(name), MAX_NAME_WIDTH) : name)
  return table(
    [
      ...(withIds ? [{ title: 'ID' }] : []),
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
      ...(withIds ? [key.keyId] : []),
      nameText(key.scope),
      nameText(key.key),
      `${key.pipeline}@${key.version}`,
      key.point,
      conditionCell(key, now),
      String(key.fence),
      durationText(now.getTime() - key.createdAt.getTime()),
      cutText(safeText(key.lastError ?? ''), MAX_CELL_WIDTH),
    ]),
    paint,
  )
}
