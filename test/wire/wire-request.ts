import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Outcome, PawlError, type Pipeline } from '@pawl/core'
import type { Row, ReturnedOutcome } from '../../packages/crash-kit/src/history.js'
import { BOUND } from '../support/guards.js'
import type { PlainEngine, WireTrial } from './wire-trial.js'

/** A COMMIT was not answered, and nobody who knows what became of it could be reached: the row may be further on. */
function isInTheDark(outcome: Outcome): boolean {
  if (outcome.type !== 'retry_later') return false
  return outcome.error instanceof PawlError && outcome.error.code === 'PAWL_CONNECTION_LOST'
}

type Final = Extract<Outcome, { type: 'completed' | 'replayed' | 'stuck' }>

/** How long a client waits before it asks again. It is told to wait for longer, but this way it meets leases and locks. */
const CLIENT_PAUSE_MS = 25

/** One request in a scope of its own, and what everybody who sent it was told. */
export class WireRequest<DB, Input> {
  readonly scope = `scope-${randomUUID()}`
  readonly key = randomUUID()
  readonly pipeline: Pipeline<DB, Input>
  readonly input: Input
  readonly outcomes: ReturnedOutcome[] = []
  readonly #trial: WireTrial

  constructor(trial: WireTrial, pipeline: Pipeline<DB, Input>, inputOf: (scope: string) => Input) {
    this.#trial = trial
    this.pipeline = pipeline
    this.input = inputOf(this.scope)
  }

  /** Whether somebody was told how it ended. */
  get isOver(): boolean {
    return this.outcomes.some(
      ({ outcome: { type } }) => type === 'completed' || type === 'replayed' || type === 'stuck',
    )
  }

  async ask({ engine, name }: PlainEngine<DB>): Promise<Outcome> {
    const { scope, key, input } = this
    const outcome = await engine.execute(this.pipeline, { scope, key, input, ...BOUND })
    this.#record(name, outcome, null)
    return outcome
  }

  /** The same if nobody else acts: what the client is told is compared with the row as it is then. */
  async askAlone(by: PlainEngine<DB>): Promise<void> {
    const { scope, key } = this
    const outcome = await by.engine.execute(this.pipeline, {
      scope,
      key,
      input: this.input,
      ...BOUND,
    })
    const row = isInTheDark(outcome) ? null : await this.#trial.database.keyRow(scope, key)
    this.#record(by.name, outcome, row)
  }

  #record(actor: string, outcome: Outcome, row: Row | null): void {
    const tick = this.#trial.tick()
    this.outcomes.push({ tick, actor, execution: tick, outcome, disturbed: true, otherRequest: false, row })
  }

  /**
   * Asks again and again. Returns null if the request has not ended in this time, or if only time can end it, because a
   * provider that was asked has to be quiet for long enough.
   */
  async askUntilOver(by: PlainEngine<DB>, forMs: number): Promise<Final | null> {
    const giveUpAt = performance.now() + forMs
    while (performance.now() < giveUpAt) {
      const outcome = await this.ask(by)
      switch (outcome.type) {
        case 'completed':
        case 'replayed':
        case 'stuck':
          return outcome
        case 'retry_later':
          if (outcome.reason === 'outcome_pending') return null
          break
        case 'in_flight':
        case 'unavailable':
          await pause(CLIENT_PAUSE_MS)
          break
        case 'mismatch':
        case 'expired':
        case 'limited':
        case 'refused':
          throw new Error(`nobody sent anything else, and yet: ${JSON.stringify(outcome)}`)
      }
    }
    return null
  }
}
