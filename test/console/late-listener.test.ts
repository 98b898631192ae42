import type { Flow } from '@pawl/core'
import { expect, test } from 'vitest'
import { ConsoleError } from '../../packages/console/src/console-error.js'
import { LiveFlow } from '../../packages/console/src/live-flow.js'
import { MIN_POLL_MS } from '../../packages/console/src/limits.js'
import { gate } from '../support/signals.js'

test('whoever begins to listen while another question is being answered hears that answer, and those after it', async () => {
  const answered = gate()
  const third = gate()
  let reads = 0
  const live = new LiveFlow({
    read: async () => {
      await answered.opened
      if (++reads === 3) third.open()
      return { at: new Date() } as unknown as Flow
    },
    explain: (cause) => new ConsoleError('internal', 'never', { cause }),
    onGone: () => {},
    pollMs: MIN_POLL_MS,
  })
  const first = live.current()
  const heard: string[] = []
  live.listen(({ type }) => heard.push(type))
  live.listen(({ type }) => heard.push(type))
  answered.open()
  await first
  await third.opened
  expect(heard.length).toBeGreaterThanOrEqual(2)
  await live.close()
})
