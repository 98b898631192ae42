import {
  FINDING_WIDTH,
  MAX_POINT_WIDTH,
  MAX_SHOWN_TEXT,
  MAX_WHO_WIDTH,
  MIN_TEXT_WIDTH,
  SHOWN_FIRST_ENTRIES,
  SHOWN_LAST_ENTRIES,
} from '../limits.js'
import { safeText } from '../safe-text.js'
import type { TimelineEntry } from '../history.js'
import { textWidth, wrapText } from './wrap-text.js'

/** The cells of one entry, in the order of the columns. */
type Cells = readonly [tick: string, who: string, what: string, point: string, fence: string]

const TITLES: Cells = ['#', 'who', 'what', 'recovery point', 'fence']
const GAP = '  '

/**
 * Returns the entries as a table. The actor is named where it differs from the line before, recovery point and fence where they
 * change. If there are very many entries, the middle is left out.
 */
export function renderTimeline(entries: readonly TimelineEntry[]): string {
  if (entries.length === 0) return '(nothing was recorded)'
  const rows = cellsOf(entries)
  const widths = widthsOf(rows)
  const lines = (row: Cells): string[] => linesOf(row, widths)
  const leftOut = rows.length - SHOWN_FIRST_ENTRIES - SHOWN_LAST_ENTRIES
  if (leftOut <= 0) return [TITLES, ...rows].flatMap(lines).join('\n')
  return [
    ...[TITLES, ...rows.slice(0, SHOWN_FIRST_ENTRIES)].flatMap(lines),
    `… ${leftOut} more …`,
    ...rows.slice(-SHOWN_LAST_ENTRIES).flatMap(lines),
  ].join('\n')
}

function cellsOf(entries: readonly TimelineEntry[]): Cells[] {
  let actor: string | null = null
  let lastPoint: string | null = null
  let lastFence: number | null = null
  // The first entry after those that are left out has to show everything.
  const resumesAt =
    entries.length > SHOWN_FIRST_ENTRIES + SHOWN_LAST_ENTRIES ? entries.length - SHOWN_LAST_ENTRIES : -1
  return entries.map(({ tick, who, what, point, fence }, index) => {
    const isNew = index === resumesAt
    const cells: Cells = [
      String(tick),
      isNew || who !== actor ? shown(who) : '',
      shown(what),
      point !== null && (isNew || point !== lastPoint) ? shown(point) : '',
      fence !== null && (isNew || fence !== lastFence) ? String(fence) : '',
    ]
    actor = who
    lastPoint = point ?? lastPoint
    lastFence = fence ?? lastFence
    return cells
  })
}

function widthsOf(rows: readonly Cells[]): readonly number[] {
  const widest = TITLES.map((title, column) =>
    Math.max(textWidth(title), ...rows.map((row) => textWidth(row[column] ?? ''))),
  )
  const [tick = 0, who = 0, what = 0, point = 0, fence = 0] = widest
  const beside = [tick, Math.min(who, MAX_WHO_WIDTH), Math.min(point, MAX_POINT_WIDTH), fence]
  const left = FINDING_WIDTH - beside.reduce((sum, width) => sum + width + GAP.length, 0)
  return [tick, beside[1] ?? 0, Math.min(what, Math.max(left, MIN_TEXT_WIDTH)), beside[2] ?? 0, fence]
}

function linesOf(row: Cells, widths: readonly number[]): string[] {
  const wrapped = row.map((cell, column) => wrapText(cell, widths[column] ?? 0))
  const height = Math.max(...wrapped.map((lines) => lines.length))
  return Array.from({ length: height }, (_, at) =>
    wrapped
      .map((lines, column) => aligned(lines[at] ?? '', widths[column] ?? 0, isNumber(column)))
      .join(GAP)
      .trimEnd(),
  )
}

function isNumber(column: number): boolean {
  return TITLES[column] === '#' || TITLES[column] === 'fence'
}

function aligned(text: string, width: number, toTheRight: boolean): string {
  const space = ' '.repeat(Math.max(0, width - textWidth(text)))
  return toTheRight ? space + text : text + space
}

function shown(text: string): string {
  return safeText(text, MAX_SHOWN_TEXT)
}
