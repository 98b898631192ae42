import { SHORT_CALL_TIMEOUT_MS } from '../limits.js'
import type { ProviderFault } from '../provider/provider-fault.js'
import { type Fault, isCall } from './fault.js'

function atProvider(id: string, title: string, fault: ProviderFault, more: Partial<Fault> = {}): Fault {
  return {
    id,
    title,
    appliesTo: isCall,
    needsProvider: true,
    strike({ trial, fired, cleanUp }) {
      const { provider } = trial.environment
      if (provider === null) return
      const armed = provider.arm(fault)
      void armed.struck.then(() => {
        fired()
        // A title's comma separates it from what follows in the name of a case.
        trial.recordNow('provider', title.replace(/,$/, ''))
      })
      cleanUp(() => armed.disarm())
    },
    ...more,
  }
}

const soon: Partial<Fault> = { settings: () => ({ callTimeoutMs: SHORT_CALL_TIMEOUT_MS }) }

export const providerTimeouts = [
  atProvider('providerTimeout.before', "provider's time-out, not executed,", 'timeoutBefore', soon),
  atProvider('providerTimeout.after', "provider's time-out after it executed,", 'timeoutAfter', soon),
]
export const provider429 = atProvider('provider429', 'provider answers 429', 'tooMany')
export const provider5xx = [
  atProvider('provider5xx.500', 'provider answers 500', 'serverError'),
  atProvider('provider5xx.503', 'provider answers 503', 'unavailable'),
]
export const providerMalformed = atProvider(
  'providerMalformed',
  'provider executes and sends a broken answer',
  'malformed',
)
export const providerDisconnect = [
  atProvider('providerDisconnect.before', 'connection to the provider broken, not executed,', 'cutBefore'),
  atProvider('providerDisconnect.after', 'connection to the provider broken after it executed,', 'cutAfter'),
]
