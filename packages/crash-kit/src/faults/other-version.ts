import { reviseDefinition } from '@pawl/core/internal'
import { sendOnce } from '../actors/send-once.js'
import { isOver } from '../database/is-over.js'
import { type Fault, isBoundary, isInPhase } from './fault.js'

/** A process of the next version, which does not know this version, gets a retry. */
export const otherVersion: Fault = {
  id: 'otherVersion',
  title: 'retry at a process of another version',
  appliesTo: (position, shape) =>
    isBoundary(position) && isInPhase(position, shape) && position.phase !== 'finished',
  async strike({ trial, fired }) {
    // A phase that responds ends the request early, and every version may replay what is stored.
    const row = await trial.environment.database.keyRow(trial.scope, trial.key)
    const wanted = isOver(row) ? 'replayed' : 'refused'
    const outcome = await sendOnce(trial, 'other version', {
      pipeline: (pipeline) =>
        reviseDefinition(pipeline, (definition) => ({
          ...definition,
          version: definition.version + 1,
          hash: definition.hash.split('').toReversed().join(''),
        })),
    })
    if (outcome === 'died' || outcome.type !== wanted) {
      trial.violations.push({
        rule: 'I10',
        title: 'a row in flight resumes under its own version or is refused loudly',
        detail: `A process with another version got ${outcome === 'died' ? 'nothing' : outcome.type} instead of ${wanted}.`,
      })
    }
    fired()
  },
}
