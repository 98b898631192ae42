import { sendOnce } from '../actors/send-once.js'
import { wasRenewed } from '../actors/was-renewed.js'
import { RENEWED_LEASE_MS } from '../limits.js'
import { type Fault, isCall } from './fault.js'
import { whileAnswerWaits } from './while-answer-waits.js'

/** The provider takes longer than the lease, which has to be renewed to keep a duplicate out. */
export const slowProvider: Fault = {
  id: 'slowProvider',
  title: 'call longer than the lease',
  appliesTo: isCall,
  needsProvider: true,
  settings: () => ({ leaseMs: RENEWED_LEASE_MS }),
  strike(strike) {
    const { trial, actor } = strike
    whileAnswerWaits(strike, async () => {
      if (!(await wasRenewed(trial))) {
        trial.violations.push({
          rule: 'I1',
          title: 'a lease is renewed for as long as its call runs',
          detail: `The lease of ${actor.name} ran out while its call was under way: nothing renewed it.`,
        })
      }
      await sendOnce(trial, 'duplicate')
    })
  },
}
