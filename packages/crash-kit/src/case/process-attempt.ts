import { readDefinition } from '@pawl/core/internal'
import type { PendingFault } from './attempt.js'
import type { Trial } from '../actors/trial.js'
import { crash } from '../faults/crash.js'
import type { NamedPosition } from '../plan/named-position.js'
import { timelineText } from '../actors/timeline-text.js'
import { KitError } from '../kit-error.js'
import { childError, lastLines } from '../process/child-error.js'
import { childStart } from '../process/child-start.js'
import type { Children } from '../process/children.js'
import type { ChildMessage, DefinitionName } from '../process/messages.js'
import type { ChildEnd } from '../process/running-child.js'

/** One attempt at the request by a child process, which dies by SIGKILL where a crash is planned. */
export class ProcessAttempt {
  /** The positions that were passed; none if it died, because nothing was passed since then. */
  readonly since: NamedPosition[] = []
  readonly #trial: Trial
  readonly #children: Children
  readonly #name: string
  readonly #pending: PendingFault | null
  readonly #dieAt: string | null
  readonly #disturbed: boolean
  readonly #execution: number
  readonly #leave = new Map<number, () => void>()
  #isReady = false
  #hasOutcome = false

  constructor(
    trial: Trial,
    children: Children,
    name: string,
    pending: readonly PendingFault[],
    recovers: boolean,
  ) {
    const other = pending.find(({ fault }) => fault.id !== crash.id)
    if (other !== undefined) {
      throw new KitError(
        'PAWL_KIT_INVALID_REPLAY',
        `'${other.fault.id}' cannot strike in a child process: only '${crash.id}' can.`,
      )
    }
    const [first = null] = pending
    // The child would have to know a position that becomes known only as the case runs.
    if (typeof first?.at === 'number') throw new TypeError('a process dies at a position that has a name')
    this.#trial = trial
    this.#children = children
    this.#name = name
    this.#pending = first
    this.#dieAt = first?.at ?? null
    this.#disturbed = recovers || pending.length > 0
    this.#execution = trial.nextExecution()
  }

  async run(): Promise<void> {
    const { environment } = this.#trial
    // The connections of an actor of the same name in this process would be taken for the child's.
    environment.pools.discard(this.#name)
    const start = await childStart(this.#trial, this.#name, this.#children, this.#dieAt)
    const end = await this.#children.run(start, (message) => this.#onMessage(message))
    this.#trial.closeWindows(this.#name)
    await environment.database.backendsGone(this.#name)
    await this.#record(end)
  }

  async #onMessage(message: ChildMessage): Promise<void> {
    const { calls, environment } = this.#trial
    const [actor, execution] = [this.#name, this.#execution]
    switch (message.type) {
      case 'ready':
        this.#check(message.definition, readDefinition(environment.pipeline()))
        this.#isReady = true
        return
      case 'at': {
        this.since.push(message.position)
        const said = timelineText(message.position)
        if (said !== null) await this.#trial.record(actor, said)
        return
      }
      case 'enter': {
        const { phase, kind, idempotencyKey } = message.window
        if (kind !== 'transaction' && idempotencyKey !== null)
          calls.push({ tick: this.#trial.tick(), actor, execution, phase, kind, idempotencyKey })
        this.#leave.set(message.id, this.#trial.enter({ actor, execution, ...message.window }))
        return
      }
      case 'leave':
        this.#leave.get(message.id)?.()
        return
      case 'outcome': {
        this.#hasOutcome = true
        const { outcome } = message
        await this.#trial.recordOutcome({
          actor,
          execution,
          outcome,
          disturbed: this.#disturbed,
          otherRequest: false,
        })
        return
      }
      case 'failed':
        throw childError(this.#children.options, message.why)
    }
  }

  /** Whoever recovers the request would rightly refuse another definition. */
  #check(theirs: DefinitionName, ours: DefinitionName): void {
    if (theirs.name === ours.name && theirs.version === ours.version && theirs.hash === ours.hash) return
    throw childError(
      this.#children.options,
      `its pipeline is ${saying(theirs)}, and crashKit's is ${saying(ours)}. Both have to be the same.`,
    )
  }

  async #record({ crashPosition, code, signal, stderr }: ChildEnd): Promise<void> {
    const pending = this.#pending
    if (pending !== null && crashPosition === this.#dieAt && signal === 'SIGKILL') {
      pending.struck = true
      pending.fired = true
      this.since.length = 0
      await this.#trial.record(this.#name, 'dies')
      return
    }
    const how = signal === null ? `with code ${code}` : `by ${signal}`
    if (!this.#isReady)
      throw childError(this.#children.options, `it ended ${how} before it could begin.`, stderr)
    if (this.#hasOutcome) return
    await this.#trial.record(this.#name, `ends ${how}, which was not planned`)
    this.#trial.violations.push({
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
