import type { PhaseSettings } from '@pawl/core'
import { Actor } from '../cast/actor.js'
import type { Scene } from '../cast/scene.js'
import type { Fault, Strike } from '../faults/fault.js'
import { type NamedPosition, parsePosition } from '../finding/position-namer.js'

/** A fault that is to strike. */
export interface PendingFault {
  readonly fault: Fault
  /** The position; a number: so many places of an attempt where it could strike are passed before. */
  readonly at: string | number
  struck: boolean
  fired: boolean
}

/** The attempt ended before a signal came. */
class AttemptEnded extends Error {}

/** One attempt at the request: by its client, by a client that retries, or by the completer. */
export class Attempt {
  readonly actor: Actor
  /** Positions passed since the last of its faults struck. */
  readonly since: NamedPosition[] = []
  readonly #scene: Scene
  readonly #pending: readonly PendingFault[]
  readonly #meanwhile: Promise<void>[] = []
  readonly #cleanUps: (() => Promise<void> | void)[] = []
  readonly #ended: Promise<never>
  readonly #passed = new Map<PendingFault, number>()
  #end: () => void = () => {}

  /** `pending` strike in their order: the second not before the first has. */
  constructor(scene: Scene, name: string, pending: readonly PendingFault[], recovers: boolean) {
    this.#scene = scene
    this.#pending = pending
    this.#ended = new Promise((_, reject) => {
      this.#end = () => reject(new AttemptEnded('the attempt has ended'))
    })
    this.#ended.catch(() => {})
    const lock = pending.find(({ fault }) => fault.lock !== undefined)
    this.actor = new Actor(scene, name, {
      at: (position) => this.#at(position),
      settings: settingsFor(pending, scene.theatre.shape.points),
      engineSettings: Object.assign(
        {},
        ...pending.map(({ fault }) => fault.engineSettings?.()),
      ) as PhaseSettings,
      lock:
        typeof lock?.at === 'string' && lock.fault.lock !== undefined
          ? { phase: parsePosition(lock.at).phase, id: lock.fault.lock }
          : null,
      // Who recovers may find things as the fault left them.
      disturbed: recovers || pending.length > 0,
    })
  }

  async run(by: 'client' | 'completer'): Promise<void> {
    const end = by === 'client' ? await this.actor.execute() : await this.actor.complete()
    if (typeof end !== 'string') this.#checkHarmless(end.type)
    this.#end()
    await Promise.all(this.#meanwhile)
    for (const cleanUp of this.#cleanUps) await cleanUp()
    await this.actor.leave()
  }

  #checkHarmless(told: string): void {
    const struck = this.#pending.filter((each) => each.struck)
    const [first] = struck
    if (first === undefined || told === 'completed' || struck.some(({ fault }) => fault.harmless !== true))
      return
    this.#scene.violations.push({
      rule: 'lint',
      title: 'a request is not changed by what happens to others',
      detail: `After '${first.fault.title}', ${this.actor.name} was told '${told}' instead of 'completed'.`,
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

  /** Planned positions come in their order; those that are counted strike where they come to. */
  #dueAt(position: NamedPosition): PendingFault | null {
    const { shape } = this.#scene.theatre
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
      scene: this.#scene,
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

/** For the phase a fault is to strike in; for each of them where that is not known. */
function settingsFor(
  pending: readonly PendingFault[],
  points: readonly string[],
): Record<string, PhaseSettings> {
  const settings: Record<string, PhaseSettings> = {}
  for (const { fault, at } of pending) {
    const phases = typeof at === 'string' ? [parsePosition(at).phase] : points
    for (const phase of phases) settings[phase] = { ...settings[phase], ...fault.settings?.() }
  }
  return settings
}
