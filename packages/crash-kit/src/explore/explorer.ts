import { runCase, type CaseResult } from '../case/run-case.js'
import type { Environment } from '../actors/environment.js'
import { FAULTS } from '../faults/faults.js'
import { hasCommitted } from '../faults/is-committing.js'
import type { Fault } from '../faults/fault.js'
import type { Coverage } from '../finding/coverage.js'
import { titleOf } from '../finding/describe-position.js'
import { Finding } from '../finding/finding.js'
import type { PlannedFault } from '../plan/planned-fault.js'
import type { NamedPosition } from '../plan/named-position.js'
import { formatReplay } from '../plan/replay-line.js'
import { KitError } from '../kit-error.js'
import type { Violation } from '../history.js'
import type { Children } from '../process/children.js'
import type { Discovery } from './discover.js'
import { judgeCase } from './judge-case.js'

/** One case to run: a fault, or two, and a name that a person understands. */
export interface PlannedCase {
  readonly plan: readonly PlannedFault[]
  readonly title: string
}

/** Enumerates cases and runs them. */
export class Explorer {
  readonly #environment: Environment
  readonly #discovery: Discovery
  readonly #faults: readonly Fault[]
  readonly #known: ReadonlyMap<string, Fault>
  readonly #coverage: Coverage
  readonly #children: Children | null
  /** What first faults left behind, if the recoveries from that are enumerated already. */
  readonly #explored = new Set<string>()

  /** With `children`, the attempts that a fault strikes run in processes of their own. */
  constructor(
    environment: Environment,
    discovery: Discovery,
    faults: readonly Fault[],
    coverage: Coverage,
    children: Children | null = null,
  ) {
    this.#environment = environment
    this.#discovery = discovery
    this.#faults = faults
    this.#known = new Map([...Object.values(FAULTS).flat(), ...faults].map((fault) => [fault.id, fault]))
    this.#coverage = coverage
    this.#children = children
  }

  /** Returns every position of the clean run with every fault that can strike there. */
  firstCases(): PlannedCase[] {
    const { positions } = this.#discovery
    return positions.flatMap((position, index) =>
      this.#faultsAt(position, countCommits(positions.slice(0, index + 1))).map(({ id }) =>
        this.named([{ attempt: 0, fault: id, at: position.text }]),
      ),
    )
  }

  /**
   * Returns every position that was passed in the recovery from a case's fault, with every fault that can strike there. A later
   * attempt depends only on what the first one left behind, so recoveries from equal remains are enumerated once.
   */
  secondCases(first: PlannedCase, { recovery, leftBehind }: CaseResult): PlannedCase[] {
    const isNew = !this.#explored.has(leftBehind)
    this.#explored.add(leftBehind)
    const before = this.#committedBefore(first)
    const passed = recovery.map(({ position }) => position)
    return recovery.flatMap(({ attempt, position }, index) => {
      if (attempt > 0 && !isNew) return []
      const committed = before + countCommits(passed.slice(0, index + 1))
      return this.#faultsAt(position, committed).map(({ id }) =>
        this.named([...first.plan, { attempt, fault: id, at: position.text }]),
      )
    })
  }

  /** Returns how many transactions a case's first attempt had committed when its fault struck. */
  #committedBefore({ plan: [fault] }: PlannedCase): number {
    const { positions } = this.#discovery
    const index = positions.findIndex(({ text }) => text === fault?.at)
    return countCommits(positions.slice(0, index + 1))
  }

  /** Runs a case. Throws a `Finding` if something that must hold did not. */
  async run({ plan, title }: PlannedCase): Promise<CaseResult> {
    this.#coverage.addCase(plan)
    const result = await this.#try(plan)
    plan.forEach((fault, at) => {
      if (result.fired[at] === true) this.#coverage.addFired(plan, fault)
    })
    const violations = this.#judge(result, plan)
    if (violations.length > 0) throw await this.#finding(plan, title, violations, result)
    const missing = plan.find((_, at) => result.fired[at] !== true)
    if (missing !== undefined) {
      throw new KitError(
        'PAWL_KIT_NOT_FIRED',
        `${title}: '${formatReplay({ kind: 'plan', plan: [missing] })}' never fired, so nothing was tested there.`,
      )
    }
    return result
  }

  /** Returns a plan with its title. Throws if it has an unknown fault. */
  named(plan: readonly PlannedFault[]): PlannedCase {
    return { plan, title: titleOf(plan, (id) => this.#faultOf(id).title, this.#environment.shape) }
  }

  #faultsAt(position: NamedPosition, committed: number): readonly Fault[] {
    return this.#faults.filter((fault) => fault.appliesTo(position, this.#environment.shape, committed))
  }

  readonly #faultOf = (id: string): Fault => {
    const fault = this.#known.get(id)
    if (fault !== undefined) return fault
    throw new KitError(
      'PAWL_KIT_INVALID_REPLAY',
      `There is no fault '${id}'. There are ${[...this.#known.keys()].join(', ')}. Pass one of your own as well: ` +
        'kit.replay(line, [fault]).',
    )
  }

  #try(plan: readonly PlannedFault[], verbose = false): Promise<CaseResult> {
    return runCase(this.#environment, plan, this.#faultOf, { verbose, children: this.#children })
  }

  #judge(result: CaseResult, plan: readonly PlannedFault[]): Violation[] {
    return judgeCase(result, this.#environment.shape, this.#discovery.clean, plan.length)
  }

  /** Runs the case again, with the row at every line, so that the timeline shows everything. */
  async #finding(
    plan: readonly PlannedFault[],
    title: string,
    violations: readonly Violation[],
    result: CaseResult,
  ): Promise<Finding> {
    const again = await this.#try(plan, true)
    const seenAgain = this.#judge(again, plan)
    const shown = seenAgain.length > 0 ? { violations: seenAgain, ...again } : { ...result, violations }
    return new Finding({
      violations: shown.violations,
      timeline: shown.timeline,
      replay: formatReplay({
        kind: 'plan',
        plan,
        ...(this.#children === null ? {} : { mode: 'process' }),
      }),
      title,
    })
  }
}

function countCommits(passed: readonly NamedPosition[]): number {
  return passed.filter(hasCommitted).length
}
