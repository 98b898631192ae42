import { type Fault, isStatement } from './fault.js'

/** What user code, or a driver that could not send, would throw: nobody expects it. */
class InjectedError extends Error {
  override readonly name = 'InjectedError'
}

/**
 * An exception before a statement is sent, in the user's own code, or around a call. Not after one of the framework's
 * statements: there is no code there that could throw.
 */
export const throwing: Fault = {
  id: 'throw',
  title: 'exception',
  appliesTo: (position) => position.when === 'before' || !isStatement(position) || position.step === 'query',
  async strike({ scene, actor, position, fired }) {
    fired()
    await scene.note(actor.name, `meets an exception at ${position.text}`)
    throw new InjectedError(`injected at ${position.text}`)
  },
}
