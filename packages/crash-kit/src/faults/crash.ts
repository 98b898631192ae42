import type { Fault } from './fault.js'

export const crash: Fault = {
  id: 'crash',
  title: 'crash',
  appliesTo: () => true,
  async strike({ trial, actor, fired }) {
    actor.die()
    fired()
    await trial.record(actor.name, 'dies')
    await new Promise<never>(() => {})
  },
}
