import type { Directive } from '@pawl/core'
import type { BusyAnswer } from './phase-plan.js'
import type { Core } from './run-transaction-plan.js'

/** The provider answered with an error, and did nothing. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly status: number

  constructor(status: number) {
    super(`the provider answered ${status}`)
    this.status = status
  }
}

/** The provider's answer cannot be read: this is an error of JavaScript itself, as those of a parser are. */
export class BrokenAnswer extends TypeError {
  constructor() {
    super("the provider's answer cannot be read")
  }
}

export function isPlanned(error: unknown): boolean {
  return error instanceof Refused || error instanceof BrokenAnswer
}

/** What `onError` returns when the provider is busy. */
export function answerTo(answer: BusyAnswer, error: unknown, core: Core): Directive | undefined {
  switch (answer) {
    case 'absent':
    case 'nothing':
      return undefined
    case 'retry_later':
      return core.retryLater(error)
    case 'not_executed':
      return core.retryLater(error, { notExecuted: true })
    case 'answers_503':
      return core.respond(503, { busy: true })
    case 'answers_finally':
      return core.respond(400, { refused: true })
    case 'throws':
      throw new Error('onError threw, as planned')
  }
}
