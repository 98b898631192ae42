import { Actor } from '../actors/actor.js'
import { isOver } from '../database/is-over.js'
import { type Fault, isBoundary } from './fault.js'

/**
 * The key expires once it has finished. The reaper deletes it, and a client comes back, for whom the provider no longer knows the key
 * that it was sent.
 */
export const expiry: Fault = {
  id: 'expiry',
  title: 'key deleted and sent again',
  appliesTo: (position) => isBoundary(position) && position.step === 'commit',
  async strike({ trial, fired }) {
    // Only the phase that responds ends the request: at the others, there is nothing to delete yet.
    if (isOver(await trial.environment.database.keyRow(trial.scope, trial.key))) {
      await trial.retire()
      const reaping = new Actor(trial, 'reaper')
      await reaping.reap()
      await reaping.close()
    }
    fired()
  },
}
