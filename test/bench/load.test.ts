import { describe, expect, test } from 'vitest'
import { type LoadPlan, runLoad, sendEach } from '../../bench/src/run/load.js'

/** Every client sends once: the window is over when the first answer comes. */
const once: LoadPlan = {
  clients: 3,
  leadInMs: 0,
  windowMs: 0,
  measure: 'all',
  keys: null,
  expectedStatus: 201,
}

const succeed = async () => ({ status: 201, body: '' })
const refuse = async () => ({ status: 409, body: 'in_flight' })

describe('runLoad', () => {
  test('every client sends at least once, each with a key of its own', async () => {
    const keys = new Set<string>()
    const result = await runLoad(async (key) => {
      keys.add(key)
      return { status: 201, body: '' }
    }, once)
    expect(keys.size).toBe(3)
    expect(result).toMatchObject({ total: 3, errors: 0, firstError: null })
    expect(result.latenciesMs).toHaveLength(3)
  })

  test('uses the given keys in turn', async () => {
    const sent: string[] = []
    await runLoad(
      async (key) => {
        sent.push(key)
        return { status: 201, body: '' }
      },
      { ...once, keys: ['a', 'b'] },
    )
    expect(sent).toEqual(['a', 'b', 'a'])
  })

  test('ends once enough requests were answered', async () => {
    const { total } = await runLoad(succeed, { ...once, windowMs: 1_000_000, atMost: 10 })
    expect(total).toBeGreaterThanOrEqual(10)
    expect(total).toBeLessThan(10 + once.clients)
  })

  test('counts and reports a wrong status and a throw as errors, and does not measure them', async () => {
    let sent = 0
    const result = await runLoad(async () => {
      if (sent++ === 0) return { status: 503, body: 'retry_later' }
      if (sent === 2) throw new Error('broken')
      return { status: 201, body: '' }
    }, once)
    expect(result).toMatchObject({ total: 1, errors: 2, firstError: 'answered 503: retry_later' })
    expect(result.latenciesMs).toHaveLength(1)
  })
})

describe('sendEach', () => {
  test('sends every key once', async () => {
    const sent: string[] = []
    await sendEach(
      async (key) => {
        sent.push(key)
        return { status: 201, body: '' }
      },
      { keys: ['a', 'b', 'c'], clients: 2, expectedStatus: 201 },
    )
    expect(sent.toSorted()).toEqual(['a', 'b', 'c'])
  })

  test('reports an answer that it did not expect', async () => {
    await expect(sendEach(refuse, { keys: ['a'], clients: 1, expectedStatus: 201 })).rejects.toThrow(
      '201 was expected, but the answer was 409: in_flight',
    )
  })
})
