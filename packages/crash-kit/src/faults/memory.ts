import { randomUUID } from 'node:crypto'
import { sendOnce } from '../actors/send-once.js'
import { BYSTANDER } from '../history.js'
import { type Fault, isBoundary, isInPhase } from './fault.js'

/**
 * Another request runs between two phases, on the same pipeline, so what the pipeline keeps in memory now belongs to the other one.
 * What that request wrote is undone, so that only memory can show it.
 */
export const memory: Fault = {
  id: 'memory',
  title: 'another request',
  harmless: true,
  appliesTo: (position, shape) =>
    isBoundary(position) && isInPhase(position, shape) && position.phase !== 'finished',
  async strike({ trial, actor, fired }) {
    const { database } = trial.environment
    const mark = await database.mark()
    await sendOnce(trial, BYSTANDER, { key: randomUUID(), source: actor.source })
    await database.loseCommitsSince(mark)
    fired()
  },
}
