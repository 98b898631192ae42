import { sendOnce } from '../actors/send-once.js'
import { CLOCK_AHEAD_MS, CLOCK_BEHIND_MS } from '../limits.js'
import { hasCommitted } from './is-committing.js'
import { type Fault, isCall } from './fault.js'

const AHEAD = 'fails over to a server whose clock is an hour ahead'
const BEHIND = 'fails over to a server whose clock is two days behind'

/**
 * The request is on its way to the provider when process and server fail. By the clock of the new server, the call's time and its
 * quiet time are long over, but the provider has not received it yet: whoever asks now must not call again.
 */
const ahead: Fault = {
  id: 'databaseClock.ahead',
  title: 'crash in the call, and failover to a clock an hour ahead,',
  appliesTo: (position, { foreign, maxAgeMs = Infinity }) =>
    isCall(position) &&
    foreign.some(({ phase, guarantee }) => phase === position.phase && guarantee === 'queryable') &&
    // The recovery takes time as well. A key that is too old by then is rightly stuck.
    maxAgeMs > 2 * CLOCK_AHEAD_MS,
  needsProvider: true,
  strike({ trial, actor, fired, meanwhile, until, cleanUp }) {
    const { provider } = trial.environment
    if (provider === null) return
    const armed = provider.arm('holdBefore')
    cleanUp(() => {
      armed.disarm()
      provider.letGo()
    })
    meanwhile(async () => {
      await until(armed.struck)
      await trial.record(actor.name, 'dies')
      actor.die()
      await actor.close()
      await trial.failOverTo(CLOCK_AHEAD_MS, AHEAD)
      await sendOnce(trial, 'rival')
      trial.recordNow('provider', 'executes what was on its way')
      provider.letGo()
      fired()
    })
  },
}

/**
 * The holder dies with its server, and by the clock of the new one its lease lasts for days. The key must be free again when the
 * lease would have been over.
 */
function behind(id: string, title: string, clientIsGone: boolean): Fault {
  return {
    id,
    title,
    appliesTo: (position) => hasCommitted(position) && position.phase !== 'finished',
    async strike({ trial, actor, fired, cleanUp }) {
      if (clientIsGone) trial.clientIsGone = true
      cleanUp(async () => {
        await actor.close()
        await trial.failOverTo(-CLOCK_BEHIND_MS, BEHIND)
        fired()
      })
      await trial.record(actor.name, clientIsGone ? 'dies, and its client never comes back' : 'dies')
      actor.die()
      return new Promise<never>(() => {})
    },
  }
}

export const databaseClocks: readonly Fault[] = [
  ahead,
  behind('databaseClock.behind', 'crash, and failover to a clock two days behind,', false),
  behind(
    'databaseClock.behind.unattended',
    'client gone for good, crash, and failover to a clock two days behind,',
    true,
  ),
]
