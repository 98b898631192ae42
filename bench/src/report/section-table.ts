import { short, withSpread } from './numbers.js'
import type { Compared, Figures, Line, Section } from './section.js'
import { type Column, textTable } from './text-table.js'

const RATIO_HEADING: Readonly<Record<Compared, string>> = {
  requestsPerSecond: 'req/s ratio',
  p50Ms: 'p50 ratio',
  p99Ms: 'p99 ratio',
}

interface Field extends Column {
  readonly cell: (line: Line) => string
  /** Null where it was not measured. Columns without any measurement are left out. */
  readonly isKnown: (line: Line) => boolean
}

const right = (heading: string, value: (line: Line) => number | null): Field => ({
  heading,
  align: 'right',
  cell: (line) => short(value(line)),
  isKnown: (line) => value(line) !== null,
})

const fields = ({ compared, unit }: Section): Field[] => [
  { heading: '', align: 'left', cell: ({ contender }) => contender, isKnown: () => true },
  {
    heading: unit,
    align: 'right',
    cell: ({ requestsPerSecond }) => withSpread(requestsPerSecond),
    isKnown: () => true,
  },
  {
    heading: RATIO_HEADING[compared],
    align: 'right',
    cell: ({ ratio }) => withSpread(ratio),
    isKnown: ({ ratio }) => ratio !== null,
  },
  right('p50 ms', ({ p50Ms }) => p50Ms),
  right('p99 ms', ({ p99Ms }) => p99Ms),
  right('CPU ms', ({ cpuMs }) => cpuMs),
  right('PG ms', ({ serverCpuMs }) => serverCpuMs),
  right('WAL B', ({ walBytes }) => walBytes),
  right('commits', ({ commits }) => commits),
  right('stmts', ({ statements }) => statements),
  right('trips', ({ roundTrips }) => roundTrips),
  {
    heading: 'errors',
    align: 'right',
    cell: ({ errors }) => String(errors),
    isKnown: ({ errors }) => errors > 0,
  },
]

/** A section as a person reads it in a terminal. */
export function sectionTable(section: Section): string {
  const { title, baseline, lines, figures, notes } = section
  if (figures !== undefined) {
    return [title, '', figuresTable(figures), ...notes.map((note) => `  ${note}`)].join('\n')
  }
  const shown = fields(section).filter(({ isKnown }) => lines.some(isKnown))
  const rows = lines.map((line) => shown.map(({ cell }) => cell(line)))
  const against = baseline === null ? '' : ` (ratios against ${baseline})`
  return [`${title}${against}`, '', textTable(shown, rows), ...notes.map((note) => `  ${note}`)].join('\n')
}

function figuresTable({ columns, rows }: Figures): string {
  return textTable(
    [{ heading: '', align: 'left' }, ...columns.map((heading) => ({ heading, align: 'right' as const }))],
    rows.map(({ label, values }) => [label, ...values.map(short)]),
  )
}
