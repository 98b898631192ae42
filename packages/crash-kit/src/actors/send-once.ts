import type { Outcome } from '@pawl/core'
import { Actor, type ActorOptions } from './actor.js'
import type { Trial } from './trial.js'

/** Sends the request once, as a new actor. By default it counts as disturbed: an outcome that says `unavailable` is then no finding. */
export async function sendOnce(
  trial: Trial,
  name: string,
  options: ActorOptions = {},
): Promise<Outcome | 'died'> {
  const actor = new Actor(trial, name, { disturbed: true, ...options })
  const outcome = await actor.execute()
  await actor.close()
  return outcome
}
