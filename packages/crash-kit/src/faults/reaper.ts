import { Actor } from '../actors/actor.js'
import { isOver } from '../database/is-over.js'
import { LONG_TIME_MS } from '../limits.js'
import { type Fault, isBoundary } from './fault.js'

/** The reaper runs when the key is old by any measure but not finished. A finished one it may delete. */
export const reaper: Fault = {
  id: 'reaper',
  title: 'reaper a year later',
  appliesTo: (position) => isBoundary(position) && position.phase !== 'finished',
  async strike({ trial, fired }) {
    // A phase that responds ends the request early.
    if (isOver(await trial.environment.database.keyRow(trial.scope, trial.key))) return fired()
    await trial.passTime(LONG_TIME_MS, 'a year and more passes')
    const reaping = new Actor(trial, 'reaper')
    await reaping.reap()
    await reaping.close()
    await trial.passTime(-LONG_TIME_MS, 'and is taken back')
    fired()
  },
}
