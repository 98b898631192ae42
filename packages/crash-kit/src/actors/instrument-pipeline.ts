import type { PhaseSettings, Pipeline } from '@pawl/core'
import { type AnyPhase, type Phase, type PipelineDefinition, reviseDefinition } from '@pawl/core/internal'
import { sql, type Transaction } from 'kysely'
import type { Window } from './trial.js'
import { watchQueries } from './watch-queries.js'

/** What is added to a pipeline to observe one actor's run of it. */
export interface Instrumentation {
  /** Called when user code is about to begin. Returns a function to call when it has ended. */
  readonly enter: (
    window: Pick<Window, 'phase' | 'kind' | 'idempotencyKey'>,
  ) => (() => void) | Promise<() => void>
  /** Called when a phase's function has returned without awaiting something. */
  readonly notAwaited: (phase: string, what: string) => void
  /** Settings that a fault needs in order to strike in reasonable time, by phase. */
  readonly settings: Readonly<Record<string, PhaseSettings>>
  /** An advisory lock that this phase's transaction takes after everything else, so that another session can wait for it. */
  readonly lock: { readonly phase: string; readonly id: number } | null
}

interface Context {
  readonly tx?: Transaction<never>
  readonly idempotencyKey?: string
}

type UserCode = (context: never) => unknown

/** Returns the same pipeline, instrumented: it has the same name, version, hash and behaviour. */
export function instrumentPipeline(
  pipeline: Pipeline<never, never>,
  instrumentation: Instrumentation,
): Pipeline<never, never> {
  const { settings } = instrumentation
  const ofPhase = <P extends AnyPhase>(phase: P): P => ({
    ...phase,
    settings: { ...phase.settings, ...settings[phase.name] },
  })
  return reviseDefinition(pipeline, (definition: PipelineDefinition) => ({
    ...definition,
    phases: definition.phases.map((phase) => watchPhase(ofPhase(phase), instrumentation)),
    finish: {
      ...ofPhase(definition.finish),
      run: inTransaction(definition.finish.run, 'finished', instrumentation),
    },
  }))
}

function watchPhase(phase: Phase, instrumentation: Instrumentation): Phase {
  const { name } = phase
  if (phase.kind === 'local') return { ...phase, run: inTransaction(phase.run, name, instrumentation) }
  const { settle, onError, reconcile, whenUnknown } = phase
  const needsLock = instrumentation.lock?.phase === name
  return {
    ...phase,
    call: watched(phase.call, name, 'call', instrumentation),
    settle:
      settle === null && !needsLock
        ? null
        : inTransaction(settle ?? (() => undefined), name, instrumentation),
    onError: onError === null ? null : inTransaction(onError, name, instrumentation),
    whenUnknown: whenUnknown === null ? null : inTransaction(whenUnknown, name, instrumentation),
    reconcile: reconcile === null ? null : watched(reconcile, name, 'reconcile', instrumentation),
  }
}

function inTransaction(code: UserCode, phase: string, instrumentation: Instrumentation): UserCode {
  const run = watched(awaiting(code, phase, instrumentation), phase, 'transaction', instrumentation)
  const { lock } = instrumentation
  if (lock?.phase !== phase) return run
  return async (context: never) => {
    const returned: unknown = await run(context)
    await sql`SELECT pg_advisory_xact_lock(${lock.id})`.execute((context as { tx: Transaction<never> }).tx)
    return returned
  }
}

/** Reports which queries are unfinished when the code returns. If it throws, they are rolled back with the rest. */
function awaiting(code: UserCode, phase: string, { notAwaited }: Instrumentation): UserCode {
  return (given: never) => {
    const { context, returned: end } = watchQueries(given, (what) => notAwaited(phase, what))
    const returned = code(context)
    if (isPromise(returned)) returned.then(end, () => {})
    else end()
    return returned
  }
}

/** Observes without a turn of the event loop of its own: the engine gets the very promise or value that user code returned. */
function watched(code: UserCode, phase: string, kind: Window['kind'], { enter }: Instrumentation): UserCode {
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
