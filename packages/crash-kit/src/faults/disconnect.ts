import { sendOnce } from '../actors/send-once.js'
import type { Fault } from './fault.js'

/** The process dies, and no client comes back, so the completer has to finish. */
export const disconnectAndCrash: Fault = {
  id: 'disconnect.crash',
  title: 'client gone for good, and crash',
  appliesTo: () => true,
  async strike({ trial, actor, fired }) {
    trial.clientIsGone = true
    await trial.record(actor.name, 'dies, and its client never comes back')
    actor.die()
    fired()
    await new Promise<never>(() => {})
  },
}

/** The client goes away, comes back with a retry while the first attempt still runs, and never again. */
export const disconnect: Fault = {
  id: 'disconnect',
  title: 'client disconnects',
  appliesTo: () => true,
  async strike({ trial, fired }) {
    trial.clientIsGone = true
    await trial.record('client', 'disconnects, and tries once more')
    await sendOnce(trial, 'reconnected client')
    fired()
  },
}
