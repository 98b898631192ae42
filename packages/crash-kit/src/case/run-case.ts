import type { Environment } from '../actors/environment.js'
import { Trial } from '../actors/trial.js'
import type { Fault } from '../faults/fault.js'
import type { PlannedFault } from '../plan/planned-fault.js'
import type { NamedPosition } from '../plan/named-position.js'
import type { Row } from '../history.js'
import { MAX_ATTEMPTS } from '../limits.js'
import { ProcessAttempt } from './process-attempt.js'
import type { Children } from '../process/children.js'
import { Attempt, type PendingFault } from './attempt.js'
import { type Conclusion, concludeTrial } from './conclude-trial.js'
import { isOver } from '../database/is-over.js'

/** What one case has shown. */
export interface CaseResult extends Conclusion {
  /** For each planned fault, whether it happened. */
  readonly fired: readonly boolean[]
  /** The positions that were passed after the last fault, where another one could strike, each with its attempt. */
  readonly recovery: readonly { readonly attempt: number; readonly position: NamedPosition }[]
  /** What the first attempt left behind. Recoveries from equal remains are the same. */
  readonly leftBehind: string
}

/** How a case is run. */
export interface RunOptions {
  /** Reads the key's row for every line of the timeline. Default false. */
  readonly verbose?: boolean
  /** Where given, the attempts that a fault strikes run in processes of their own. Default null. */
  readonly children?: Children | null
}

/** Sends the request, lets the planned faults strike, and recovers it until it has ended. */
export async function runCase(
  environment: Environment,
  plan: readonly PlannedFault[],
  faultOf: (id: string) => Fault,
  { verbose = false, children = null }: RunOptions = {},
): Promise<CaseResult> {
  const pending = plan.map(({ attempt, fault, at }) => ({
    attempt,
    fault: faultOf(fault),
    at,
    struck: false,
    fired: false,
  }))
  return runPending(await Trial.open(environment, verbose), pending, children)
}

/** Does the same with faults whose attempt, if it is null, and position become known only as the case runs. */
export async function runPending(
  trial: Trial,
  pending: readonly (PendingFault & { readonly attempt: number | null })[],
  children: Children | null = null,
): Promise<CaseResult> {
  const { environment } = trial
  const recovery: { attempt: number; position: NamedPosition }[] = []
  let leftBehind = ''
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const struckBefore = countStruck(pending)
    const outcomesBefore = trial.outcomes.length
    const passed = await runAttempt(
      trial,
      children,
      attempt,
      pending.filter((each) => each.attempt === attempt || (each.attempt === null && !each.struck)),
    )
    // What was passed before the last fault struck is not part of the recovery from it.
    if (pending.some((each) => each.struck && each.attempt === attempt)) recovery.length = 0
    recovery.push(...passed.map((position) => ({ attempt, position })))
    const isStruck = countStruck(pending) > struckBefore
    if (attempt > 0 && !isStruck && trial.outcomes.length > outcomesBefore) checkRetry(trial)
    const row = await environment.database.keyRow(trial.scope, trial.key)
    if (attempt === 0) leftBehind = describeLeft(trial, row)
    if (isOver(row) || trial.reaped) break
    if (row === null) await trial.passUntilAllowed()
    else await trial.passUntilDue(attempt)
  }
  return {
    ...(await concludeTrial(trial)),
    fired: pending.map(({ fired }) => fired),
    recovery,
    leftBehind,
  }
}

async function runAttempt(
  trial: Trial,
  children: Children | null,
  number: number,
  pending: readonly PendingFault[],
): Promise<readonly NamedPosition[]> {
  const by = trial.clientIsGone ? 'completer' : 'client'
  const name = number === 0 ? 'client' : by === 'completer' ? 'completer' : 'retry'
  // A recovery that no fault strikes verifies the case. It may run here, where everything of it can be observed.
  if (children !== null && (number === 0 || pending.length > 0)) {
    const process = new ProcessAttempt(trial, children, name, pending, number > 0)
    await process.run()
    return process.since
  }
  const attempt = new Attempt(trial, name, pending, number > 0)
  await attempt.run(by)
  return attempt.since
}

function countStruck(pending: readonly PendingFault[]): number {
  return pending.filter(({ struck }) => struck).length
}

/** A retry of a key that is due and that nobody holds must get it: the completer must not be the only one that can. */
function checkRetry({ outcomes, violations }: Trial): void {
  const last = outcomes.at(-1)
  if (last?.actor !== 'retry') return
  if (last.outcome.type !== 'in_flight' && last.outcome.type !== 'unavailable') return
  violations.push({
    rule: 'L1',
    title: 'a retry of a key that is due goes on with it',
    detail: `The key was due and nobody held it, but a client that retried got '${last.outcome.type}'.`,
  })
}

/** Describes what a recovery depends on: the row, without ids and times, and what the provider has. */
function describeLeft(trial: Trial, row: Row | null): string {
  const requests = trial.environment.provider?.history() ?? []
  const intent = row?.['intent'] as { kind: string; phase: string } | null | undefined
  return JSON.stringify({
    status: row?.['status'],
    point: row?.['recovery_point'],
    intent: intent == null ? null : [intent.kind, intent.phase],
    epoch: row?.['effect_epoch'],
    attempts: row?.['attempts'],
    retries: row?.['retries'],
    // Which of these are set shows how the key was left: by a crash, or given back.
    set: ['lease_until', 'run_after', 'last_error'].filter((column) => row?.[column] != null),
    requests: requests.map(({ phase, executed }) => [phase, executed]),
    clientIsGone: trial.clientIsGone,
    clockAheadMs: trial.clockAheadMs,
  })
}
