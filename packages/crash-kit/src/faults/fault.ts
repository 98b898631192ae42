import type { PhaseSettings } from '@pawl/core'
import type { Actor } from '../cast/actor.js'
import type { Scene } from '../cast/scene.js'
import type { NamedPosition } from '../finding/position-namer.js'
import type { PipelineShape } from '../history.js'

/** What a fault gets when it strikes: the engine of `actor` waits at `position` until `strike` resolves. */
export interface Strike {
  readonly scene: Scene
  readonly actor: Actor
  readonly position: NamedPosition
  /** To be called when it has really happened. A planned fault that never says so fails the run. */
  readonly fired: () => void
  /** Begins work that goes on once the engine is let go. */
  readonly meanwhile: (work: () => Promise<void>) => void
  /** Waits for a signal in such work, which is given up when the attempt ends without it. */
  readonly until: <T>(signal: Promise<T>) => Promise<T>
  /** Done when the attempt has ended, however it did. */
  readonly cleanUp: (work: () => Promise<void> | void) => void
}

/** Something that goes wrong at one position. */
export interface Fault {
  /** Stands in replay lines, such as `providerTimeout.after`. */
  readonly id: string
  /** For a person, followed by where: `crash` in `crash after ride_created committed`. */
  readonly title: string
  /**
   * Whether it can strike there. `committed`: how many transactions the request has committed by then; not given where
   * that shows only as the case runs.
   */
  appliesTo(position: NamedPosition, shape: PipelineShape, committed?: number): boolean
  /** Settings for the phase it is to strike in, where the usual ones would make it slow or impossible. */
  settings?(): PhaseSettings
  /** The same for the engine: what its statements outside of a phase's transaction go by. */
  engineSettings?(): PhaseSettings
  /** It strikes at the fake provider: without one it cannot. */
  readonly needsProvider?: true
  /** It happens to others: whoever it strikes beside has to complete as if nothing had been. */
  readonly harmless?: true
  /** An advisory lock that the phase's transaction is to hold when it strikes. */
  readonly lock?: number
  /** Resolves: the engine goes on. Throws: the engine meets the error there. Never resolves: the actor is dead. */
  strike(strike: Strike): Promise<void> | void
}

/** Phases' own positions, as against those of `reserve`, `raise`, `give_back` and the services. */
export function isInPhase({ phase }: NamedPosition, { points }: PipelineShape): boolean {
  return points.includes(phase)
}

export function isStatement({ step }: NamedPosition): boolean {
  return step !== 'call' && step !== 'reconcile'
}

/** The statement that moves the key's recovery point, inside a phase's transaction. */
export function isAdvance({ step, when }: NamedPosition): boolean {
  return when === 'before' && (step === 'advance_key' || step === 'finish_key')
}

/** A recovery point has just been committed. */
export function isBoundary({ step, when }: NamedPosition): boolean {
  return when === 'after' && (step === 'commit' || step === 'skip_phase')
}

export function isCall({ step, when }: NamedPosition): boolean {
  return step === 'call' && when === 'before'
}
