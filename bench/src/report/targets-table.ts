import { short } from './numbers.js'
import type { Section } from './section.js'
import type { Target } from './targets.js'
import { textTable } from './text-table.js'

/** The targets as a person reads them, and what the CPU target leaves out. */
export function targetsTable(targets: readonly Target[], sections: readonly Section[]): string {
  const table = textTable(
    [
      { heading: 'target', align: 'left' },
      { heading: 'bound', align: 'right' },
      { heading: 'measured', align: 'right' },
      { heading: '', align: 'left' },
    ],
    targets.map(({ name, bound, kind, ratio, unit, met }) => [
      name,
      `${kind} ${bound}${unit}`,
      ratio === null ? '–' : `${short(ratio)}${unit}`,
      verdict(met),
    ]),
  )
  return ['Targets', '', table, ...cpuNote(sections)].join('\n')
}

function verdict(met: boolean | null): string {
  switch (met) {
    case true:
      return 'met'
    case false:
      return 'NOT MET'
    case null:
      return 'not measured'
  }
}

/** The target counts only the framework's share; this is the total. */
function cpuNote(sections: readonly Section[]): string[] {
  const lines = sections.find(({ name }) => name === 'fresh C=32')?.lines ?? []
  const cpuOf = (contender: string) => lines.find((line) => line.contender === contender)?.cpuMs ?? null
  const pawl = cpuOf('pawl-fewest')
  const handWritten = cpuOf('hand-written')
  if (pawl === null || handWritten === null) return []
  const total = `Pawl's total CPU per fresh request at C=32 is ${short(pawl)} ms`
  return [`  ${total}, ${short(pawl / handWritten)}× of the hand-written pattern's ${short(handWritten)} ms.`]
}
