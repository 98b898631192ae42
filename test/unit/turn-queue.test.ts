import { expect, test } from 'vitest'
import { TurnQueue } from '../../packages/core/src/background/turn-queue.js'

const item = (scope: string, nth = 0) => ({ id: `${scope} ${nth}`, scope })

test('a scope of which all was dropped is used up until everything is offered anew', () => {
  const queue = new TurnQueue(1)
  queue.offer([item('a'), item('b')])
  expect(queue.isUsedUp).toBe(true)
  queue.forgetDropped()
  expect(queue.isUsedUp).toBe(false)
})

test('a scope of which some was dropped is used up once the rest has begun', () => {
  const queue = new TurnQueue(1)
  queue.offer([item('a'), item('a', 1)])
  expect(queue.isUsedUp).toBe(false)
  expect(queue.take(() => true)?.scope).toBe('a')
  expect(queue.isUsedUp).toBe(true)
})
