import type { PhaseSettings } from '@pawl/core'
import { Actor } from '../actors/actor.js'
import type { Trial } from '../actors/trial.js'
import type { Fault, Strike } from '../faults/fault.js'
import type { PipelineShape } from '../history.js'
import { type NamedPosition, parsePosition } from '../plan/named-position.js'

/** A fault that is to strike. */
export interface PendingFault {
  readonly fault: Fault
  /** The position. A number stands for how many positions of an attempt where it could strike are passed before it does. */
  readonly at: string | number
  struck: boolean
  fired: boolean
}

/** Thrown when the attempt ends before a signal comes. */
class AttemptEnded extends Error {}

/** One attempt at the request: by its client, by a client that retries, or by the completer. */
export class Attempt {
  readonly actor: Actor
  /** The positions that were passed since the last of its faults struck. */
  readonly since: NamedPosition[] = []
  readonly #trial: Trial
  readonly #pending: readonly PendingFault[]
  readonly #meanwhile: Promise<void>[] = []
  readonly #cleanUps: (() => Promise<void> | void)[] = []
  readonly #ended: Promise<never>
  readonly #passed = new Map<PendingFault, number>()
  #end: () => void = () => {}

  /** The `pending` faults strike in order: the second one not before the first has. */
  constructor(trial: Trial, name: string, pending: readonly PendingFault[], recovers: boolean) {
    this.#trial = trial
    this.#pending = pending
    this.#ended = new Promise((_, reject) => {
      this.#end = () => reject(new AttemptEnded('the attempt has ended'))
    })
    this.#ended.catch(() => {})
    const lock = pending.find(({ fault }) => fault.lock !== undefined)
    this.actor = new Actor(trial, name, {
      at: (position) => this.#at(position),
      settings: settingsFor(pending, trial.environment.shape),
      engineSettings: Object.assign(
        {},
        ...pending.map(({ fault }) => fault.engineSettings?.()),
      ) as PhaseSettings,
      lock:
        typeof lock?.at === 'string' && lock.fault.lock !== undefined
          ? { phase: parsePosition(lock.at).phase, id: lock.fault.lock }
          : null,
      // A recovery may find things as the fault left them.
      disturbed: recovers || pending.length > 0,
    })
  }

  async run(by: 'client' | 'completer'): Promise<void> {
    const end = by === 'client' ? await this.actor.execute() : await this.actor.complete()
    if (typeof end !== 'string') this.#checkHarmless(end.type)
    this.#end()
    await Promise.all(this.#meanwhile)
    for (const cleanUp of this.#cleanUps) await cleanUp()
    await this.actor.close()
  }

  #checkHarmless(outcome: string): void {
    const struck = this.#pending.filter((each) => each.struck)
    const [first] = struck
    if (first === undefined || outcome === 'completed' || struck.some(({ fault }) => fault.harmless !== true))
      return
    this.#trial.violations.push({
      rule: 'lint',
      title: 'a request is not changed by what happens to others',
      detail: `After '${first.fault.title}', ${this.actor.name} got '${outcome}' instead of 'completed'.`,
    })
  }

  #at(position: NamedPosition): void | Promise<void> {
    const next = this.#dueAt(position)
    if (next === null) {
      this.since.push(position)
      return
    }
    next.struck = true
    this.since.length = 0
    try {
      return next.fault.strike(this.#strike(next, position))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Returns the fault that strikes here. Those with planned positions come in order; those that count strike when they have. */
  #dueAt(position: NamedPosition): PendingFault | null {
    const { shape } = this.#trial.environment
    for (const pending of this.#pending) {
      if (pending.struck) continue
      if (typeof pending.at === 'string') return pending.at === position.text ? pending : null
      if (!pending.fault.appliesTo(position, shape)) continue
      const passed = this.#passed.get(pending) ?? 0
      if (passed === pending.at) return pending
      this.#passed.set(pending, passed + 1)
    }
    return null
  }

  #strike(pending: PendingFault, position: NamedPosition): Strike {
    return {
      trial: this.#trial,
      actor: this.actor,
      position,
      fired: () => {
        pending.fired = true
      },
      meanwhile: (work) => {
        this.#meanwhile.push(
          work().catch((error: unknown) => {
            if (!(error instanceof AttemptEnded)) throw error
          }),
        )
      },
      until: (signal) => Promise.race([signal, this.#ended]),
      cleanUp: (work) => {
        this.#cleanUps.push(work)
      },
    }
  }
}

/**
 * Returns settings for the phase in which a fault is to strike, or for every phase if that is not known. Phases of a leg have the
 * same settings, or they would not share a transaction.
 */
function settingsFor(
  pending: readonly PendingFault[],
  { points, inLegs }: PipelineShape,
): Record<string, PhaseSettings> {
  const settings: Record<string, PhaseSettings> = {}
  for (const { fault, at } of pending) {
    const phases = typeof at === 'string' && inLegs !== true ? [parsePosition(at).phase] : points
    for (const phase of phases) settings[phase] = { ...settings[phase], ...fault.settings?.() }
  }
  return settings
}
