import type { Outcome } from '@pawl/core'
import { Actor, type ActorOptions } from './actor.js'
import type { Scene } from './scene.js'

/** Somebody comes by, sends the request once, and leaves. It may be told that something is away, unless said otherwise. */
export async function visit(
  scene: Scene,
  name: string,
  options: ActorOptions = {},
): Promise<Outcome | 'died'> {
  const visitor = new Actor(scene, name, { disturbed: true, ...options })
  const outcome = await visitor.execute()
  await visitor.leave()
  return outcome
}
