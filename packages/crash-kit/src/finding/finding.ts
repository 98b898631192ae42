import type { Violation } from '../history.js'
import { FINDING_WIDTH, MAX_SHOWN_TEXT, MAX_SHOWN_VIOLATIONS } from '../limits.js'
import { framesOutsideOfKit } from './frames-outside-of-kit.js'
import { renderTimeline } from './render-timeline.js'
import { importanceOf, ruleTitle } from './rule-titles.js'
import { safeLines, safeText } from '../safe-text.js'
import type { TimelineEntry } from '../history.js'
import { wrapText } from './wrap-text.js'

/** What a finding is made of. */
export interface FindingParts {
  readonly violations: readonly Violation[]
  readonly timeline: readonly TimelineEntry[]
  /** For `kit.replay`. */
  readonly replay: string
  /** The title of the case. */
  readonly title: string
}

/**
 * A case in which something that must hold did not. The message has everything: what was broken, in which case, how it happened,
 * and how to see it again.
 */
export class Finding extends Error {
  override readonly name = 'Finding'
  // Private, because whatever prints errors would print public members again below the message.
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

  /** The title of the case: which faults struck, and where. */
  get title(): string {
    return this.#parts.title
  }

  /** For reporters that send errors from one process to another. The message has the rest. */
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
    ...(isLint ? fixFirst(others) : alsoBroke(others)),
    '',
    ...(isLint ? timelineUntil(timeline, worst) : [renderTimeline(timeline)]),
    '',
    `To see it again: await kit.replay(${quoted(replay)})`,
  ].join('\n')
}

/** Returns whether the pipeline has to be fixed. If so, no other finding is worth reading before that. */
export function isOfPipeline({ rule }: Violation): boolean {
  return rule === 'lint'
}

function alsoBroke(others: readonly Violation[]): string[] {
  return others.length === 0 ? [] : ['', 'It also broke:', ...othersOf(others)]
}

function fixFirst(others: readonly Violation[]): string[] {
  const rules = new Set(others.filter((each) => !isOfPipeline(each)).map(({ rule }) => rule))
  if (rules.size === 0) return []
  return [
    '',
    `It also broke ${[...rules].join(', ')}, which mostly follows from this. Fix this first, and run again.`,
  ]
}

/** What came after the lint showed does not help to fix it. */
function timelineUntil(timeline: readonly TimelineEntry[], { tick }: Violation): string[] {
  const shown = tick === undefined ? timeline : timeline.filter((entry) => entry.tick <= tick)
  const left = timeline.length - shown.length
  return [renderTimeline(shown), ...(left === 0 ? [] : [`… and ${left} more`])]
}

/** It is not wrapped, because lists of failures show it. */
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

/** Wraps the text, and indents the following lines to where the first one's text begins. */
function indented(lead: string, text: string): string[] {
  const space = ' '.repeat(lead.length)
  return wrapText(text, FINDING_WIDTH - lead.length).map((line, at) => (at === 0 ? lead : space) + line)
}

/** Returns the text as a JavaScript string literal. */
function quoted(text: string): string {
  const escaped = text.replaceAll(/['\\]/g, String.raw`\$&`)
  return `'${safeText(escaped, Infinity)}'`
}
