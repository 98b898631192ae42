import { readDefinition } from '@pawl/core/internal'
import type { PendingFault } from '../case/attempt.js'
import type { Scene } from '../cast/scene.js'
import { crash } from '../faults/crash.js'
import type { NamedPosition } from '../finding/position-namer.js'
import { sayPosition } from '../finding/say-position.js'
import { KitError } from '../kit-error.js'
import { childError, lastLines } from './child-error.js'
import { childStart } from './child-start.js'
import type { Children } from './children.js'
import type { ChildSays, DefinitionName } from './messages.js'
import type { ChildEnd } from './running-child.js'

/** One attempt at the request by a process of its own, which dies by SIGKILL where a crash is planned. */
export class ProcessAttempt {
  /** Positions passed; none if it died, for nothing was passed since then. */
  readonly since: NamedPosition[] = []
  readonly #scene: Scene
  readonly #children: Children
  readonly #name: string
  readonly #pending: PendingFault | null
  readonly #dieAt: string | null
  readonly #disturbed: boolean
  readonly #execution: number
  readonly #leave = new Map<number, () => void>()
  #isReady = false
  #isTold = false

  constructor(
    scene: Scene,
    children: Children,
    name: string,
    pending: readonly PendingFault[],
    recovers: boolean,
  ) {
    const other = pending.find(({ fault }) => fault.id !== crash.id)
    if (other !== undefined) {
      throw new KitError(
        'PAWL_KIT_INVALID_REPLAY',
        `'${other.fault.id}' cannot strike in a process of its own: only '${crash.id}' can.`,
      )
    }
    const [first = null] = pending
    // A position that shows only as the case runs would have to be known in the child.
    if (typeof first?.at === 'number') throw new TypeError('a process dies at a position that has a name')
    this.#scene = scene
    this.#children = children
    this.#name = name
    this.#pending = first
    this.#dieAt = first?.at ?? null
    this.#disturbed = recovers || pending.length > 0
    this.#execution = scene.nextExecution()
  }

  async run(): Promise<void> {
    const { theatre } = this.#scene
    // Those of an actor of the same name in this process would be taken for the child's.
    theatre.pools.abandon(this.#name)
    const start = await childStart(this.#scene, this.#name, this.#children, this.#dieAt)
    const end = await this.#children.run(start, (says) => this.#hear(says))
    this.#scene.leaveAll(this.#name)
    await theatre.database.backendsGone(this.#name)
    await this.#record(end)
  }

  async #hear(says: ChildSays): Promise<void> {
    const { calls, theatre } = this.#scene
    const [actor, execution] = [this.#name, this.#execution]
    switch (says.type) {
      case 'ready':
        this.#check(says.definition, readDefinition(theatre.pipeline()))
        this.#isReady = true
        return
      case 'at': {
        this.since.push(says.position)
        const said = sayPosition(says.position)
        if (said !== null) await this.#scene.note(actor, said)
        return
      }
      case 'enter': {
        const { phase, kind, idempotencyKey } = says.window
        if (kind !== 'transaction' && idempotencyKey !== null)
          calls.push({ tick: this.#scene.tick(), actor, execution, phase, kind, idempotencyKey })
        this.#leave.set(says.id, this.#scene.enter({ actor, execution, ...says.window }))
        return
      }
      case 'leave':
        this.#leave.get(says.id)?.()
        return
      case 'told': {
        this.#isTold = true
        const { outcome } = says
        await this.#scene.tell({ actor, execution, outcome, disturbed: this.#disturbed, impostor: false })
        return
      }
      case 'failed':
        throw childError(this.#children.options, says.why)
    }
  }

  /** Another definition would be refused by whoever recovers the request, and rightly so. */
  #check(theirs: DefinitionName, ours: DefinitionName): void {
    if (theirs.name === ours.name && theirs.version === ours.version && theirs.hash === ours.hash) return
    throw childError(
      this.#children.options,
      `its pipeline is ${saying(theirs)}, and crashKit's is ${saying(ours)}. Both have to be the same.`,
    )
  }

  async #record({ lastWords, code, signal, stderr }: ChildEnd): Promise<void> {
    const pending = this.#pending
    if (pending !== null && lastWords === this.#dieAt && signal === 'SIGKILL') {
      pending.struck = true
      pending.fired = true
      this.since.length = 0
      await this.#scene.note(this.#name, 'dies')
      return
    }
    const how = signal === null ? `with code ${code}` : `by ${signal}`
    if (!this.#isReady)
      throw childError(this.#children.options, `it ended ${how} before it could begin.`, stderr)
    if (this.#isTold) return
    await this.#scene.note(this.#name, `ends ${how}, which was not planned`)
    this.#scene.violations.push({
      rule: 'I14',
      title: 'the process lives on, whatever the request meets',
      detail: [
        `The process of ${this.#name} ended ${how}, which was not planned.`,
        ...lastLines(stderr),
      ].join('\n'),
    })
  }
}

function saying({ name, version, hash }: DefinitionName): string {
  return `'${name}', version ${version}, definition ${hash}`
}
