import { Actor } from '../actors/actor.js'
import type { Trial } from '../actors/trial.js'
import { sendOnce } from '../actors/send-once.js'
import type { TimelineEntry } from '../history.js'
import type { History, Violation } from '../history.js'
import { MAX_COMPLETER_ROUNDS } from '../limits.js'
import { collectHistory } from './collect-history.js'
import { isOver } from '../database/is-over.js'

/** What a trial has shown. */
export interface Conclusion {
  readonly history: History
  readonly timeline: readonly TimelineEntry[]
  /** Violations that were seen while it ran. The oracle finds those that the history shows. */
  readonly seen: readonly Violation[]
}

/** Ends the trial, collects its history, and undoes what it committed. */
export async function concludeTrial(trial: Trial): Promise<Conclusion> {
  const history = await collectHistory(trial, await finishTrial(trial))
  await trial.clear()
  return { history, timeline: trial.timeline, seen: trial.violations }
}

/**
 * Faults have stopped. The completer ends what has not ended yet. Then a client comes back for the response, another one sends a
 * different request under the same key, and the relay delivers the jobs. Returns how many rounds the completer needed, or null if it
 * could not end the key.
 */
async function finishTrial(trial: Trial): Promise<number | null> {
  const { database } = trial.environment
  const rowNow = () => database.keyRow(trial.scope, trial.key)
  let rounds = await complete(trial)
  if ((await rowNow()) === null && !trial.reaped) {
    // Nobody had got as far as reserving the key. So this client is the first, and it may need the completer as well.
    await sendOnce(trial, 'first client')
    rounds = await complete(trial)
  }
  const row = await rowNow()
  // A stuck key is not these clients' fault. The oracle checks why it is stuck.
  const disturbed = row?.['status'] === 'stuck' || rounds === null
  await sendOnce(trial, 'late client', { disturbed })
  if (row !== null) {
    await sendOnce(trial, 'mismatch', { otherRequest: true, disturbed })
    if (trial.environment.request.bindTo !== undefined)
      await sendOnce(trial, 'other binding', { otherBinding: true, disturbed })
  }
  await relayJobs(trial)
  return rounds
}

async function complete(trial: Trial): Promise<number | null> {
  const { database } = trial.environment
  const row = () => database.keyRow(trial.scope, trial.key)
  if ((await row()) === null || isOver(await row())) return 0
  const completer = new Actor(trial, 'completer', { disturbed: true })
  try {
    for (let round = 1; round <= MAX_COMPLETER_ROUNDS; round++) {
      await trial.passUntilDue(round)
      await completer.complete()
      if (isOver(await row())) return round
    }
    return null
  } finally {
    await completer.close()
  }
}

async function relayJobs(trial: Trial): Promise<void> {
  const { database } = trial.environment
  // Makes jobs due that are still to wait.
  await database.admin.query(
    `UPDATE ${database.pawlSchema}.staged_jobs SET run_after = clock_timestamp() WHERE run_after > clock_timestamp()`,
  )
  const relay = new Actor(trial, 'relay')
  await relay.relay()
  await relay.close()
}
