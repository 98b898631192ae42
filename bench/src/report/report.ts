import { sectionTable } from './section-table.js'
import type { Section } from './section.js'
import { type Surroundings, surroundingsText } from './surroundings.js'
import { judgeTargets, type Target } from './targets.js'
import { targetsTable } from './targets-table.js'

/** All of a run. */
export interface Report {
  readonly mode: string
  readonly seconds: number
  readonly surroundings: Surroundings
  readonly sections: readonly Section[]
  readonly targets: readonly Target[]
  readonly errors: readonly string[]
}

export function makeReport(
  sections: readonly Section[],
  about: Pick<Report, 'mode' | 'seconds' | 'surroundings'>,
): Report {
  return { ...about, sections, targets: judgeTargets(sections), errors: errorsOf(sections) }
}

/** Any answer that was not the right one. */
function errorsOf(sections: readonly Section[]): string[] {
  return sections.flatMap(({ name, lines }) =>
    lines
      .filter(({ errors }) => errors > 0)
      .map(
        ({ contender, errors, firstError }) =>
          `${name}: ${contender} failed ${errors} times. The first ${firstError}`,
      ),
  )
}

export function reportText({ mode, seconds, surroundings, sections, targets, errors }: Report): string {
  return [
    surroundingsText(surroundings),
    ...sections.map(sectionTable),
    ...(targets.some(({ ratio }) => ratio !== null) ? [targetsTable(targets, sections)] : []),
    ...errors.map((error) => `ERROR: ${error}`),
    `Took ${Math.round(seconds)} s (${mode}). Median of the rounds, with the least and the most.`,
  ].join('\n\n')
}
