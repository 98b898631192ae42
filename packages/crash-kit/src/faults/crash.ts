import type { Fault } from './fault.js'

export const crash: Fault = {
  id: 'crash',
  title: 'crash',
  appliesTo: () => true,
  async strike({ scene, actor, fired }) {
    actor.die()
    fired()
    await scene.note(actor.name, 'dies')
    await new Promise<never>(() => {})
  },
}
