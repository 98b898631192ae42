import { visit } from '../cast/visit.js'
import { CLOCK_AHEAD_MS, CLOCK_BEHIND_MS } from '../limits.js'
import { hasCommitted } from './committing.js'
import { type Fault, isCall } from './fault.js'

const AHEAD = 'fails over to a server whose clock is an hour ahead'
const BEHIND = 'fails over to a server whose clock is two days behind'

/**
 * The request is on its way to the provider when process and server fail. By the clock of the new server the call's time and
 * its quiet time are long over, and the provider has not heard of it yet: who asks now must not make it again.
 */
const ahead: Fault = {
  id: 'databaseClock.ahead',
  title: 'crash in the call, and failover to a clock an hour ahead,',
  appliesTo: (position, { foreign, maxAgeMs = Infinity }) =>
    isCall(position) &&
    foreign.some(({ phase, guarantee }) => phase === position.phase && guarantee === 'queryable') &&
    // Its recovery takes time as well: a key that is too old for it is rightly a person's.
    maxAgeMs > 2 * CLOCK_AHEAD_MS,
  needsProvider: true,
  strike({ scene, actor, fired, meanwhile, until, cleanUp }) {
    const { provider } = scene.theatre
    if (provider === null) return
    const armed = provider.arm('holdBefore')
    cleanUp(() => {
      armed.disarm()
      provider.letGo()
    })
    meanwhile(async () => {
      await until(armed.struck)
      await scene.note(actor.name, 'dies')
      actor.die()
      await actor.leave()
      await scene.failOverTo(CLOCK_AHEAD_MS, AHEAD)
      await visit(scene, 'rival')
      scene.jot('provider', 'executes what was on its way')
      provider.letGo()
      fired()
    })
  },
}

/**
 * The holder dies with its server, and by the clock of the new one its lease lasts for days. The key must be had again when
 * the lease would have been over.
 */
function behind(id: string, title: string, clientIsGone: boolean): Fault {
  return {
    id,
    title,
    appliesTo: (position) => hasCommitted(position) && position.phase !== 'finished',
    async strike({ scene, actor, fired, cleanUp }) {
      if (clientIsGone) scene.clientIsGone = true
      cleanUp(async () => {
        await actor.leave()
        await scene.failOverTo(-CLOCK_BEHIND_MS, BEHIND)
        fired()
      })
      await scene.note(actor.name, clientIsGone ? 'dies, and its client never comes back' : 'dies')
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
