import { Actor } from '../cast/actor.js'
import type { Scene } from '../cast/scene.js'
import { visit } from '../cast/visit.js'
import type { TimelineEntry } from '../finding/timeline.js'
import type { History, Violation } from '../history.js'
import { MAX_COMPLETER_ROUNDS } from '../limits.js'
import { collectHistory } from './collect-history.js'
import { isOver } from './is-over.js'

/** What a scene showed. */
export interface Conclusion {
  readonly history: History
  readonly timeline: readonly TimelineEntry[]
  /** Seen while it ran; what the history shows is for the oracle. */
  readonly seen: readonly Violation[]
}

/** Ends the scene, takes down what it showed, and undoes what it committed. */
export async function concludeScene(scene: Scene): Promise<Conclusion> {
  const history = await collectHistory(scene, await finishScene(scene))
  await scene.clear()
  return { history, timeline: scene.timeline, seen: scene.violations }
}

/**
 * Faults have stopped. The completer ends what has not ended yet; then a client comes back for the response, another
 * sends something else under the same key, and the relay hands the jobs over. Gives the completer's rounds; null: it
 * could not end the key.
 */
async function finishScene(scene: Scene): Promise<number | null> {
  const { database } = scene.theatre
  const rowNow = () => database.keyRow(scene.scope, scene.key)
  let rounds = await complete(scene)
  if ((await rowNow()) === null && !scene.reaped) {
    // Nobody had come as far as to reserve it: the late client is the first, and it may need the completer as well.
    await visit(scene, 'first client')
    rounds = await complete(scene)
  }
  const row = await rowNow()
  // A person's key is nobody's fault here: the oracle asks why it is.
  const disturbed = row?.['status'] === 'stuck' || rounds === null
  if (!scene.reaped) await visit(scene, 'late client', { disturbed })
  if (row !== null) await visit(scene, 'impostor', { impostor: true, disturbed })
  await relayJobs(scene)
  return rounds
}

async function complete(scene: Scene): Promise<number | null> {
  const { database } = scene.theatre
  const row = () => database.keyRow(scene.scope, scene.key)
  if ((await row()) === null || isOver(await row())) return 0
  const completer = new Actor(scene, 'completer', { disturbed: true })
  try {
    for (let round = 1; round <= MAX_COMPLETER_ROUNDS; round++) {
      await scene.passUntilDue(round)
      await completer.complete()
      if (isOver(await row())) return round
    }
    return null
  } finally {
    await completer.leave()
  }
}

async function relayJobs(scene: Scene): Promise<void> {
  const { database } = scene.theatre
  // Jobs that are to wait have waited.
  await database.admin.query(
    `UPDATE ${database.pawlSchema}.staged_jobs SET run_after = clock_timestamp() WHERE run_after > clock_timestamp()`,
  )
  const relay = new Actor(scene, 'relay')
  await relay.relay()
  await relay.leave()
}
