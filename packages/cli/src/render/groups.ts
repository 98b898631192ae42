import type { UnfinishedGroup } from '@pawl/core'
import type { Paint, Style } from './paint.js'
import { type Cell, table } from './table.js'
import { durationText } from './time.js'

/** Unfinished keys as a table, a line per pipeline, version and recovery point. */
export function renderGroups(groups: readonly UnfinishedGroup[], at: Date, paint: Paint): readonly string[] {
  return table(
    [
      { title: 'PIPELINE' },
      { title: 'VERSION', align: 'right' },
      { title: 'POINT' },
      { title: 'HELD', align: 'right' },
      { title: 'BACKING OFF', align: 'right' },
      { title: 'UNATTENDED', align: 'right' },
      { title: 'STUCK', align: 'right' },
      { title: 'OLDEST', align: 'right' },
    ],
    groups.map((group) => [
      group.pipeline,
      String(group.version),
      group.point,
      count(group.held),
      count(group.backingOff),
      count(group.unattended, 'yellow'),
      count(group.stuck, 'red'),
      durationText(at.getTime() - group.oldestCreatedAt.getTime()),
    ]),
    paint,
  )
}

export function unfinishedIn(groups: readonly UnfinishedGroup[]): number {
  return groups.reduce(
    (sum, { held, backingOff, unattended, stuck }) => sum + held + backingOff + unattended + stuck,
    0,
  )
}

/** Zeros are dimmed, so that the other numbers stand out. */
function count(number: number, style?: Style): Cell {
  if (number === 0) return { text: '0', style: 'dim' }
  return style === undefined ? String(number) : { text: String(number), style }
}
