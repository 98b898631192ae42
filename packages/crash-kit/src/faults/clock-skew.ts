import { sendOnce } from '../actors/send-once.js'
import { SKEW_MS } from '../limits.js'
import type { Fault } from './fault.js'

/** Machines whose clocks are an hour off ask for a key that somebody holds. */
export const clockSkew: Fault = {
  id: 'clockSkew',
  title: 'duplicates with clocks an hour off',
  appliesTo: ({ step, when }) => when === 'before' && (step === 'begin' || step === 'call'),
  async strike({ trial, fired }) {
    for (const skewMs of [SKEW_MS, -SKEW_MS]) {
      const name = skewMs > 0 ? 'duplicate (an hour ahead)' : 'duplicate (an hour behind)'
      await sendOnce(trial, name, { skewMs, disturbed: false })
    }
    fired()
  },
}
