import { expect, test } from 'vitest'
import { alternate } from '../../bench/src/measure/rounds.js'

test('everybody has one turn in each round, in an order that rotates', async () => {
  const turns: string[] = []
  const samples = await alternate(['a', 'b', 'c'], 4, async (name, round) => {
    turns.push(`${round}${name}`)
    return `${name}${round}`
  })
  expect(turns.join(' ')).toBe('0a 0b 0c 1b 1c 1a 2c 2a 2b 3a 3b 3c')
  expect([...samples]).toEqual([
    ['a', ['a0', 'a1', 'a2', 'a3']],
    ['b', ['b0', 'b1', 'b2', 'b3']],
    ['c', ['c0', 'c1', 'c2', 'c3']],
  ])
})

test('participants take their turns one at a time', async () => {
  let under = 0
  await alternate(['a', 'b'], 2, async () => {
    under++
    await Promise.resolve()
    expect(under).toBe(1)
    under--
  })
})

test('no participants are not an error', async () => {
  expect((await alternate([], 3, async () => 1)).size).toBe(0)
})
