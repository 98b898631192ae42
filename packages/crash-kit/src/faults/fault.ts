import type { PhaseSettings } from '@pawl/core'
import type { Actor } from '../actors/actor.js'
import type { Trial } from '../actors/trial.js'
import type { NamedPosition } from '../plan/named-position.js'
import type { PipelineShape } from '../history.js'

/** What a fault gets when it strikes. The engine of `actor` waits at `position` until `strike` resolves. */
export interface Strike {
  readonly trial: Trial
  readonly actor: Actor
  readonly position: NamedPosition
  /** To be called when the fault has really happened. A planned fault that never calls it fails the run. */
  readonly fired: () => void
  /** Begins work that goes on while the engine does. */
  readonly meanwhile: (work: () => Promise<void>) => void
  /** Waits for a signal in such work, and gives up when the attempt ends without it. */
  readonly until: <T>(signal: Promise<T>) => Promise<T>
  /** Runs work when the attempt has ended, however it ended. */
  readonly cleanUp: (work: () => Promise<void> | void) => void
}

/** Something that goes wrong at one position. */
export interface Fault {
  /** Its name in replay lines, such as `providerTimeout.after`. */
  readonly id: string
  /** For a person, followed by the place: `crash` in `crash after ride_created committed`. */
  readonly title: string
  /**
   * Returns whether it can strike there. `committed` is how many transactions the request has committed by then; it is left out if
   * that becomes known only as the case runs.
   */
  appliesTo(position: NamedPosition, shape: PipelineShape, committed?: number): boolean
  /** Returns settings for the phase in which it is to strike, if the usual ones would make it slow or impossible. */
  settings?(): PhaseSettings
  /** Returns the same for the engine: the settings of its statements outside a phase's transaction. */
  engineSettings?(): PhaseSettings
  /** It strikes at the fake provider, so it needs one. */
  readonly needsProvider?: true
  /** It happens to others, so the actor has to complete as if nothing had happened. */
  readonly harmless?: true
  /** An advisory lock that the phase's transaction is to hold when it strikes. */
  readonly lock?: number
  /** If it resolves, the engine goes on. If it throws, the engine meets that error. If it never resolves, the actor is dead. */
  strike(strike: Strike): Promise<void> | void
}

/** Returns whether it is a position of a phase, as opposed to `reserve`, `raise`, `give_back` and the services. */
export function isInPhase({ phase }: NamedPosition, { points }: PipelineShape): boolean {
  return points.includes(phase)
}

export function isStatement({ step }: NamedPosition): boolean {
  return step !== 'call' && step !== 'reconcile'
}

/** Returns whether the statement that moves the key's recovery point, inside a phase's transaction, comes next. */
export function isAdvance({ step, when }: NamedPosition): boolean {
  return when === 'before' && (step === 'advance_key' || step === 'finish_key')
}

/** Returns whether a recovery point has just been committed. */
export function isBoundary({ step, when }: NamedPosition): boolean {
  return when === 'after' && (step === 'commit' || step === 'skip_phase')
}

export function isCall({ step, when }: NamedPosition): boolean {
  return step === 'call' && when === 'before'
}
