import { type Fault, isCall } from './fault.js'
import { sendImpatiently } from './send-impatiently.js'
import { whileAnswerWaits } from './while-answer-waits.js'

/** The provider does not answer until the lease is over and another has had the key. */
export const leaseExpiry: Fault = {
  id: 'leaseExpiry',
  title: 'lease over during the call',
  appliesTo: isCall,
  needsProvider: true,
  strike(strike) {
    const { trial, actor } = strike
    actor.disturbed = true
    whileAnswerWaits(strike, async () => {
      await trial.expireLease()
      await sendImpatiently(trial)
    })
  },
}
