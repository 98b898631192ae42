import type { Violation } from '../history.js'
import { FINDING_WIDTH, MAX_SHOWN_TEXT, MAX_SHOWN_VIOLATIONS } from '../limits.js'
import { framesOutsideOfKit } from './frames-outside-of-kit.js'
import { renderTimeline } from './render-timeline.js'
import { importanceOf, ruleTitle } from './rule-titles.js'
import { safeLines, safeText } from './safe-text.js'
import type { TimelineEntry } from './timeline.js'
import { wrapText } from './wrap-text.js'

/** What a finding is made of. */
export interface FindingParts {
  readonly violations: readonly Violation[]
  readonly timeline: readonly TimelineEntry[]
  /** For `kit.replay`. */
  readonly replay: string
  /** Of the case. */
  readonly title: string
}

/**
 * A case in which something that must hold did not. The message tells all of it: what, in which case, how it came to
 * that, and how to see it again.
 */
export class Finding extends Error {
  override readonly name = 'Finding'
  // Not plain members: what prints errors would print all of them once more, below the message.
  readonly #parts: FindingParts

  constructor(parts: FindingParts, options?: { readonly cause?: unknown }) {
    const violations = parts.violations.toSorted((a, b) => importanceOf(a.rule) - importanceOf(b.rule))
    super(messageOf({ ...parts, violations }), options)
    this.#parts = { ...parts, violations }
    this.stack = [`Finding: ${this.message}`, ...framesOutsideOfKit()].join('\n')
  }

  /** What did not hold, the most important first. */
  get violations(): readonly Violation[] {
    return this.#parts.violations
  }

  get timeline(): readonly TimelineEntry[] {
    return this.#parts.timeline
  }

  /** What `kit.replay` takes to run the case again. */
  get replay(): string {
    return this.#parts.replay
  }

  /** Of the case: which faults struck, and where. */
  get title(): string {
    return this.#parts.title
  }

  /** For reporters that send errors from one process to another: the message has the rest. */
  toJSON(): { readonly name: string; readonly message: string; readonly stack: string | undefined } {
    const { name, message, stack } = this
    return { name, message, stack }
  }
}

function messageOf({ violations, timeline, replay, title }: FindingParts): string {
  const [worst, ...others] = violations
  const isLint = worst !== undefined && isOfPipeline(worst)
  return [
    ...(worst === undefined ? ['The case failed.'] : headline(worst)),
    '',
    ...fact('case', title),
    ...(worst === undefined ? [] : fact('must hold', worst.title)),
    ...(isLint ? mendFirst(others) : alsoBroke(others)),
    '',
    ...(isLint ? timelineUntil(timeline, worst) : [renderTimeline(timeline)]),
    '',
    `To see it again: await kit.replay(${quoted(replay)})`,
  ].join('\n')
}

/** Whether it is the pipeline that has to be mended: then no other finding is worth reading before that. */
export function isOfPipeline({ rule }: Violation): boolean {
  return rule === 'lint'
}

function alsoBroke(others: readonly Violation[]): string[] {
  return others.length === 0 ? [] : ['', 'It also broke:', ...othersOf(others)]
}

function mendFirst(others: readonly Violation[]): string[] {
  const rules = new Set(others.filter((each) => !isOfPipeline(each)).map(({ rule }) => rule))
  if (rules.size === 0) return []
  return [
    '',
    `It also broke ${[...rules].join(', ')}, which mostly follows from this. Mend it first, and run again.`,
  ]
}

/** What came after the lint showed is of no use to who mends it. */
function timelineUntil(timeline: readonly TimelineEntry[], { tick }: Violation): string[] {
  const shown = tick === undefined ? timeline : timeline.filter((entry) => entry.tick <= tick)
  const left = timeline.length - shown.length
  return [renderTimeline(shown), ...(left === 0 ? [] : [`… and ${left} more`])]
}

/** Not wrapped: it is what lists of failures show. */
function headline(worst: Violation): string[] {
  const [first = '', ...more] = safeLines(worst.detail.trim(), MAX_SHOWN_TEXT)
  return [`${ruleTitle(worst.rule)}: ${first}`, ...more.flatMap((line) => indented('  ', line))]
}

function fact(name: string, value: string): string[] {
  return indented(`  ${name.padEnd('must hold'.length)}  `, safeText(value, MAX_SHOWN_TEXT))
}

function othersOf(violations: readonly Violation[]): string[] {
  const shown = violations.slice(0, MAX_SHOWN_VIOLATIONS).flatMap(({ rule, detail }) => {
    const [first = '', ...more] = safeLines(detail.trim(), MAX_SHOWN_TEXT)
    return [
      ...indented('  - ', `${ruleTitle(rule)}: ${first}`),
      ...more.flatMap((line) => indented('    ', line)),
    ]
  })
  const left = violations.length - MAX_SHOWN_VIOLATIONS
  return left > 0 ? [...shown, `  … and ${left} more`] : shown
}

/** Wrapped, with the lines after the first under the first one's text. */
function indented(lead: string, text: string): string[] {
  const space = ' '.repeat(lead.length)
  return wrapText(text, FINDING_WIDTH - lead.length).map((line, at) => (at === 0 ? lead : space) + line)
}

/** As a string of JavaScript. */
function quoted(text: string): string {
  const escaped = text.replaceAll(/['\\]/g, String.raw`\$&`)
  return `'${safeText(escaped, Infinity)}'`
}
