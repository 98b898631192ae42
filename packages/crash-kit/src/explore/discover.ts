import { runCase } from '../case/run-case.js'
import type { Environment } from '../actors/environment.js'
import { Finding, type FindingParts } from '../finding/finding.js'
import type { NamedPosition } from '../plan/named-position.js'
import { formatReplay } from '../plan/replay-line.js'
import { KitError } from '../kit-error.js'
import { type CleanRun, cleanRunOf } from '../oracle/clean-run.js'
import { decisionsOf, differentDecisions } from '../oracle/decisions.js'
import { judgeCase } from './judge-case.js'

/** What the runs without a fault have shown. */
export interface Discovery {
  /** Every position that the request passes, in order. */
  readonly positions: readonly NamedPosition[]
  readonly clean: CleanRun
}

function noFault(id: string): never {
  throw new TypeError(`no fault '${id}' is planned in a clean run`)
}

/** Runs the request twice without a fault. What differs between the two does not count as a difference later. */
export async function discover(environment: Environment, ignore: readonly string[]): Promise<Discovery> {
  const first = await runCase(environment, [], noFault)
  checkProvider(environment)
  const violations = judgeCase(first, environment.shape, null, 0)
  if (violations.length > 0) {
    const again = await runCase(environment, [], noFault, { verbose: true })
    const seenAgain = judgeCase(again, environment.shape, null, 0)
    throw findingOf(seenAgain.length > 0 ? { violations: seenAgain, ...again } : { ...first, violations })
  }
  const outcome = first.history.outcomes[0]?.outcome
  if (outcome?.type !== 'completed') {
    throw new KitError(
      'PAWL_KIT_NOT_CLEAN',
      `Without any fault, the request did not end in a response but got ${outcome?.type ?? 'nothing'}` +
        `${whyOf(outcome)}. Pass a request that succeeds to crashKit.`,
      { cause: outcome !== undefined && 'error' in outcome ? outcome.error : undefined },
    )
  }
  const second = await runCase(environment, [], noFault)
  // Reported before the two are compared: what a phase writes would differ as well, and nobody would look at its `when`.
  const decided = differentDecisions(decisionsOf(first.history), decisionsOf(second.history))
  if (decided.length > 0) throw findingOf({ violations: decided, timeline: second.timeline })
  return {
    positions: first.recovery.map(({ position }) => position),
    clean: cleanRunOf(first.history, second.history, ignore),
  }
}

function findingOf({ violations, timeline }: Pick<FindingParts, 'violations' | 'timeline'>): Finding {
  const replay = formatReplay({ kind: 'plan', plan: [] })
  return new Finding({ violations, timeline, replay, title: 'no fault at all' })
}

/** A mistake in the user's own functions of the fake provider would otherwise look like a fault of the pipeline. */
function checkProvider({ provider }: Environment): void {
  const [failure] = provider?.failures() ?? []
  if (failure === undefined) return
  const { where, error } = failure
  throw new KitError('PAWL_KIT_NOT_CLEAN', `fakeProvider: ${where} failed${whyOf({ error })}.`, {
    cause: error,
  })
}

function whyOf(outcome: unknown): string {
  const { error } = (outcome ?? {}) as { error?: unknown }
  return error instanceof Error ? ` (${error.message})` : ''
}
