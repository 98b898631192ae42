import { type Fault, isStatement } from './fault.js'

/** An unexpected error, as user code or a driver that cannot send would throw it. */
class InjectedError extends Error {
  override readonly name = 'InjectedError'
}

/**
 * An exception before a statement is sent, in the user's own code, or around a call. It does not strike after the framework's
 * statements, because there is no code there that could throw.
 */
export const throwing: Fault = {
  id: 'throw',
  title: 'exception',
  appliesTo: (position) => position.when === 'before' || !isStatement(position) || position.step === 'query',
  async strike({ trial, actor, position, fired }) {
    fired()
    await trial.record(actor.name, `meets an exception at ${position.text}`)
    throw new InjectedError(`injected at ${position.text}`)
  },
}
