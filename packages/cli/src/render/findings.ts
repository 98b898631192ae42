import type { Finding } from '@pawl/core'
import type { Paint, Style } from './paint.js'
import { safeText } from './safe-text.js'

const STYLES = { ok: 'green', warning: 'yellow', error: 'red' } as const satisfies Record<
  Finding['level'],
  Style
>

/** A line per check; what to do about it on the next. */
export function renderFindings(findings: readonly Finding[], paint: Paint): readonly string[] {
  const width = Math.max(0, ...findings.map(({ check }) => check.length))
  return findings.flatMap(({ check, level, detail, remedy }) => [
    `${paint(STYLES[level], level.padEnd('warning'.length))}  ${safeText(check).padEnd(width)}  ${safeText(detail)}`,
    ...(remedy === null
      ? []
      : [`${' '.repeat('warning'.length)}  ${' '.repeat(width)}  → ${safeText(remedy)}`]),
  ])
}
