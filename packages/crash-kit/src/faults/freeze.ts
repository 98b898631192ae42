import type { Fault } from './fault.js'
import { sendImpatiently } from './send-impatiently.js'

/** The process freezes until its lease is over and another has had the key, then goes on as if nothing had happened. */
export const freeze: Fault = {
  id: 'freeze',
  title: 'freeze past the lease',
  appliesTo: () => true,
  async strike({ trial, actor, fired }) {
    actor.disturbed = true
    await trial.record(actor.name, 'freezes')
    await trial.expireLease()
    await sendImpatiently(trial)
    fired()
    await trial.record(actor.name, 'wakes')
  },
}
