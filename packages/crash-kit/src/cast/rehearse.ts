import type { PhaseSettings, Pipeline } from '@pawl/core'
import { type AnyPhase, type Phase, type PipelineDefinition, reviseDefinition } from '@pawl/core/internal'
import { sql, type Transaction } from 'kysely'
import type { Window } from './scene.js'
import { watchQueries } from './watch-queries.js'

/** What is done to a pipeline so that one actor's run of it can be watched. */
export interface Rehearsal {
  /** User code is about to begin; gives what to call when it has ended. */
  readonly enter: (
    window: Pick<Window, 'phase' | 'kind' | 'idempotencyKey'>,
  ) => (() => void) | Promise<() => void>
  /** A phase's function has returned, and not awaited this. */
  readonly notAwaited: (phase: string, what: string) => void
  /** Settings that a fault needs to strike in reasonable time, by phase. */
  readonly settings: Readonly<Record<string, PhaseSettings>>
  /** An advisory lock that this phase's transaction takes after all else, so that somebody can wait for it. */
  readonly lock: { readonly phase: string; readonly id: number } | null
}

interface Context {
  readonly tx?: Transaction<never>
  readonly idempotencyKey?: string
}

type UserCode = (context: never) => unknown

/** The same pipeline, watched: same name, version, hash and behaviour. */
export function rehearse(pipeline: Pipeline<never, never>, rehearsal: Rehearsal): Pipeline<never, never> {
  const { settings } = rehearsal
  const ofPhase = <P extends AnyPhase>(phase: P): P => ({
    ...phase,
    settings: { ...phase.settings, ...settings[phase.name] },
  })
  return reviseDefinition(pipeline, (definition: PipelineDefinition) => ({
    ...definition,
    phases: definition.phases.map((phase) => watchPhase(ofPhase(phase), rehearsal)),
    finish: {
      ...ofPhase(definition.finish),
      run: inTransaction(definition.finish.run, 'finished', rehearsal),
    },
  }))
}

function watchPhase(phase: Phase, rehearsal: Rehearsal): Phase {
  const { name } = phase
  if (phase.kind === 'local') return { ...phase, run: inTransaction(phase.run, name, rehearsal) }
  const { settle, onError, reconcile, whenUnknown } = phase
  const needsLock = rehearsal.lock?.phase === name
  return {
    ...phase,
    call: watched(phase.call, name, 'call', rehearsal),
    settle:
      settle === null && !needsLock ? null : inTransaction(settle ?? (() => undefined), name, rehearsal),
    onError: onError === null ? null : inTransaction(onError, name, rehearsal),
    whenUnknown: whenUnknown === null ? null : inTransaction(whenUnknown, name, rehearsal),
    reconcile: reconcile === null ? null : watched(reconcile, name, 'reconcile', rehearsal),
  }
}

function inTransaction(code: UserCode, phase: string, rehearsal: Rehearsal): UserCode {
  const run = watched(awaiting(code, phase, rehearsal), phase, 'transaction', rehearsal)
  const { lock } = rehearsal
  if (lock?.phase !== phase) return run
  return async (context: never) => {
    const returned: unknown = await run(context)
    await sql`SELECT pg_advisory_xact_lock(${lock.id})`.execute((context as { tx: Transaction<never> }).tx)
    return returned
  }
}

/** Says which queries the code leaves behind where it returns. What it leaves where it throws is undone with the rest. */
function awaiting(code: UserCode, phase: string, { notAwaited }: Rehearsal): UserCode {
  return (given: never) => {
    const { context, returned: end } = watchQueries(given, (what) => notAwaited(phase, what))
    const returned = code(context)
    if (isPromise(returned)) returned.then(end, () => {})
    else end()
    return returned
  }
}

/** Looks on without a turn of its own: the engine gets the very promise, or the very value, that the user's code gave. */
function watched(code: UserCode, phase: string, kind: Window['kind'], { enter }: Rehearsal): UserCode {
  return (context: never) => {
    const idempotencyKey = (context as Context).idempotencyKey ?? null
    const leave = enter({ phase, kind, idempotencyKey })
    return isPromise(leave)
      ? leave.then((end) => runUntil(end, code, context))
      : runUntil(leave, code, context)
  }
}

function runUntil(leave: () => void, code: UserCode, context: never): unknown {
  let returned: unknown
  try {
    returned = code(context)
  } catch (error) {
    leave()
    throw error
  }
  if (isPromise(returned)) returned.then(leave, leave)
  else leave()
  return returned
}

function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | null | undefined)?.then === 'function'
}
