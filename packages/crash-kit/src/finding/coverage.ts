import { KitError } from '../kit-error.js'
import { MAX_SHOWN_MISSING } from '../limits.js'
import type { PlannedFault } from '../plan/planned-fault.js'
import { formatReplay } from '../plan/replay-line.js'

/** A fault that was planned and did not strike, and the case that it belongs to. */
export interface MissingFault {
  readonly fault: PlannedFault
  /** Its number in the case's plan, counted from 1. */
  readonly nth: number
  /** What `kit.replay` takes to run that case. */
  readonly replay: string
}

interface PlannedCase {
  readonly plan: readonly PlannedFault[]
  readonly fired: Set<string>
}

/**
 * What a run planned to try, and what it did try. If a planned fault never struck, its case tested nothing.
 */
export class Coverage {
  readonly #cases = new Map<string, PlannedCase>()
  readonly #reached = new Set<string>()

  /** Plans a case. The same plan twice is one case. */
  addCase(plan: readonly PlannedFault[]): void {
    this.#caseOf(plan)
  }

  /** Records that a fault of a case's plan struck. */
  addFired(plan: readonly PlannedFault[], fault: PlannedFault): void {
    this.#caseOf(plan).fired.add(textOf(fault))
    // Its position was reached, too. Positions of a recovery do not appear in a run without faults.
    this.#reached.add(fault.at)
  }

  /** Records that a run passed a position, given as `phase/step#occurrence:when`. */
  addReached(at: string): void {
    this.#reached.add(at)
  }

  /** Returns the planned faults that never struck, in the order of planning. */
  missing(): readonly MissingFault[] {
    return [...this.#cases].flatMap(([replay, { plan, fired }]) =>
      plan
        .map((fault, index) => ({ fault, nth: index + 1, replay }))
        .filter(({ fault }) => !fired.has(textOf(fault))),
    )
  }

  /** Returns a line and a short table, for the end of a run. */
  render(): string {
    const counts = [...this.#countsByFault()]
    const width = Math.max(...[TITLE, ...counts.map(([fault]) => fault)].map((text) => text.length))
    const lines = counts.map(([fault, { planned, fired }]) => {
      const left = planned - fired
      return `${line(fault, width, planned, fired)}${left === 0 ? '' : `  ${left} never fired`}`
    })
    const table = lines.length === 0 ? [] : [line(TITLE, width, 'planned', 'fired'), ...lines]
    return [this.#summary(), ...table].join('\n')
  }

  /** Throws if planned faults never struck, and names each. */
  assertComplete(): void {
    const missing = this.missing()
    if (missing.length === 0) return
    const shown = missing.slice(0, MAX_SHOWN_MISSING).map(describeMissing)
    const left = missing.length - shown.length
    throw new KitError(
      'PAWL_KIT_NOT_FIRED',
      [
        `${missing.length === 1 ? 'A planned fault' : `${missing.length} planned faults`} never fired: nothing was tested there. ` +
          'Does the pipeline take another path each time it runs? It may depend on its input and state only.',
        ...shown,
        ...(left > 0 ? [`  … and ${left} more`] : []),
      ].join('\n'),
    )
  }

  #caseOf(plan: readonly PlannedFault[]): PlannedCase {
    const replay = formatReplay({ kind: 'plan', plan })
    const planned = this.#cases.get(replay) ?? { plan, fired: new Set() }
    this.#cases.set(replay, planned)
    return planned
  }

  #countsByFault(): Map<string, { planned: number; fired: number }> {
    const counts = new Map<string, { planned: number; fired: number }>()
    for (const { plan, fired } of this.#cases.values()) {
      for (const fault of plan) {
        const count = counts.get(fault.fault) ?? { planned: 0, fired: 0 }
        count.planned++
        if (fired.has(textOf(fault))) count.fired++
        counts.set(fault.fault, count)
      }
    }
    return counts
  }

  #summary(): string {
    const planned = [...this.#cases.values()].flatMap(({ plan }) => plan.map(({ at }) => at))
    const known = new Set([...planned, ...this.#reached])
    const { size } = this.#cases
    return `${size} ${size === 1 ? 'case' : 'cases'}, ${this.#reached.size} of ${known.size} positions reached`
  }
}

const TITLE = 'fault'

function line(fault: string, width: number, planned: number | string, fired: number | string): string {
  return `${fault.padEnd(width)}  ${String(planned).padStart('planned'.length)}  ${String(fired).padStart('fired'.length)}`
}

function describeMissing({ fault, nth, replay }: MissingFault): string {
  return replay === textOf(fault) ? `  '${replay}'` : `  fault ${nth} (${fault.fault}) of '${replay}'`
}

function textOf(fault: PlannedFault): string {
  return formatReplay({ kind: 'plan', plan: [fault] })
}
