import { Scene, type Theatre } from '../cast/scene.js'
import type { Fault } from '../faults/fault.js'
import type { PlannedFault } from '../finding/plan.js'
import type { NamedPosition } from '../finding/position-namer.js'
import type { Row } from '../history.js'
import { MAX_ATTEMPTS } from '../limits.js'
import { ProcessAttempt } from '../process/process-attempt.js'
import { Attempt, type PendingFault } from './attempt.js'
import { type Conclusion, concludeScene } from './conclude-scene.js'
import { isOver } from './is-over.js'

/** What one case showed. */
export interface CaseResult extends Conclusion {
  /** For each planned fault, whether it happened. */
  readonly fired: readonly boolean[]
  /** Positions passed after the last fault, with the attempt they were passed in: where another could strike. */
  readonly recovery: readonly { readonly attempt: number; readonly position: NamedPosition }[]
  /** What the first attempt left behind. Recoveries from equal ones are the same. */
  readonly leftBehind: string
}

/** Sends the request, lets the planned faults strike, and recovers it until it has ended. */
export async function runCase(
  theatre: Theatre,
  plan: readonly PlannedFault[],
  faultOf: (id: string) => Fault,
  verbose = false,
): Promise<CaseResult> {
  const pending = plan.map(({ attempt, fault, at }) => ({
    attempt,
    fault: faultOf(fault),
    at,
    struck: false,
    fired: false,
  }))
  return runPending(await Scene.open(theatre, verbose), pending)
}

/** The same with faults whose attempt, where it is null, and position show only as it runs. */
export async function runPending(
  scene: Scene,
  pending: readonly (PendingFault & { readonly attempt: number | null })[],
): Promise<CaseResult> {
  const { theatre } = scene
  const recovery: { attempt: number; position: NamedPosition }[] = []
  let leftBehind = ''
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const struckBefore = countStruck(pending)
    const toldBefore = scene.told.length
    const passed = await runAttempt(
      scene,
      attempt,
      pending.filter((each) => each.attempt === attempt || (each.attempt === null && !each.struck)),
    )
    // What was passed before the last fault struck is no recovery from it.
    if (pending.some((each) => each.struck && each.attempt === attempt)) recovery.length = 0
    recovery.push(...passed.map((position) => ({ attempt, position })))
    const isStruck = countStruck(pending) > struckBefore
    if (attempt > 0 && !isStruck && scene.told.length > toldBefore) checkRetry(scene)
    const row = await theatre.database.keyRow(scene.scope, scene.key)
    if (attempt === 0) leftBehind = describeLeft(scene, row)
    if (isOver(row)) break
    if (row !== null) await scene.passUntilDue(attempt)
  }
  return {
    ...(await concludeScene(scene)),
    fired: pending.map(({ fired }) => fired),
    recovery,
    leftBehind,
  }
}

async function runAttempt(
  scene: Scene,
  number: number,
  pending: readonly PendingFault[],
): Promise<readonly NamedPosition[]> {
  const by = scene.clientIsGone ? 'completer' : 'client'
  const name = number === 0 ? 'client' : by === 'completer' ? 'completer' : 'retry'
  const { children } = scene.theatre
  // A recovery that no fault strikes is what verifies the case: it may run here, where everything of it can be watched.
  if (children !== null && (number === 0 || pending.length > 0)) {
    const process = new ProcessAttempt(scene, children, name, pending, number > 0)
    await process.run()
    return process.since
  }
  const attempt = new Attempt(scene, name, pending, number > 0)
  await attempt.run(by)
  return attempt.since
}

function countStruck(pending: readonly PendingFault[]): number {
  return pending.filter(({ struck }) => struck).length
}

/** Who retries a key that is due and that nobody holds has to get it: the completer must not be the only one who can. */
function checkRetry({ told, violations }: Scene): void {
  const last = told.at(-1)
  if (last?.actor !== 'retry') return
  if (last.outcome.type !== 'in_flight' && last.outcome.type !== 'unavailable') return
  violations.push({
    rule: 'L1',
    title: 'a retry of a key that is due goes on with it',
    detail: `The key was due and nobody held it, and a client that retried was told '${last.outcome.type}'.`,
  })
}

/** What a recovery depends on: the row, without ids and times, and what the provider has. */
function describeLeft(scene: Scene, row: Row | null): string {
  const requests = scene.theatre.provider?.history() ?? []
  const intent = row?.['intent'] as { kind: string; phase: string } | null | undefined
  return JSON.stringify({
    status: row?.['status'],
    point: row?.['recovery_point'],
    intent: intent == null ? null : [intent.kind, intent.phase],
    epoch: row?.['effect_epoch'],
    attempts: row?.['attempts'],
    retries: row?.['retries'],
    // Which of them are set: how the key was left, by a crash or given back.
    set: ['lease_until', 'run_after', 'last_error'].filter((column) => row?.[column] != null),
    requests: requests.map(({ phase, executed }) => [phase, executed]),
    clientIsGone: scene.clientIsGone,
    clockAheadMs: scene.clockAheadMs,
  })
}
