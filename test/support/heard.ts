import { type PawlChannel, subscribe } from '@pawl/core'
import { onTestFinished } from 'vitest'
import { gate } from './signals.js'

/** Resolves when this many messages have come on a channel from now on. */
export function heard(name: PawlChannel, count = 1): Promise<void> {
  const reached = gate()
  let messages = 0
  onTestFinished(subscribe(name, () => ++messages === count && reached.open()))
  return reached.opened
}
