import { Actor } from '../actors/actor.js'
import { isOver } from '../database/is-over.js'
import { type Fault, isBoundary, isInPhase } from './fault.js'

/** Somebody has everything of the scope erased while the request is under way: it keeps what it needs. */
export const erasure: Fault = {
  id: 'erasure',
  title: 'erasure of its scope',
  harmless: true,
  appliesTo: (position, shape) =>
    isBoundary(position) && isInPhase(position, shape) && position.phase !== 'finished',
  async strike({ trial, fired }) {
    // A phase that responds ends the request early. Then there is something to erase.
    if (!isOver(await trial.environment.database.keyRow(trial.scope, trial.key))) {
      const erasing = new Actor(trial, 'eraser')
      await erasing.erase()
      await erasing.close()
    }
    fired()
  },
}
