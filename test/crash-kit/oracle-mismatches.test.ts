import { describe, expect, test } from 'vitest'
import { begun } from './ride-histories.js'
import { IN_FLIGHT, json, MISMATCH, UNAVAILABLE } from './sample-outcomes.js'
import { broken } from './broken.js'

const PHASE = 'charge_created'
const OK = json(201, { id: 7 })

/** A key that finished with a response. */
const answered = (response = OK) => begun().story.finish('client', response)

const OTHER_REQUEST = { otherRequest: true, execution: 5 }

const mismatchGot = (outcome: typeof UNAVAILABLE | typeof IN_FLIGHT, disturbed: boolean) =>
  broken('I12', begun().story.returnTo('mismatch', outcome, { ...OTHER_REQUEST, disturbed }))

describe('I12: another request under the same key', () => {
  test('holds for a mismatch', () => {
    expect(broken('I12', begun().story.returnTo('mismatch', MISMATCH, OTHER_REQUEST))).toEqual([])
  })

  test('any other outcome is reported', () => {
    const story = answered()
    story.returnTo('mismatch', story.completed(OK, 'replayed'), OTHER_REQUEST)
    expect(broken('I12', story)).toMatchInlineSnapshot(`
      [
        "mismatch sent another request under the key and got 'replayed'.",
      ]
    `)
    expect(broken('I12', begun().story.returnTo('mismatch', IN_FLIGHT, OTHER_REQUEST))).toHaveLength(1)
  })

  test('holds for an execution that could not read the row because of a fault', () => {
    const locked = { ...IN_FLIGHT, leaseLeftMs: null }
    expect(mismatchGot(UNAVAILABLE, true)).toEqual([])
    expect(mismatchGot(locked, true)).toEqual([])
    expect(mismatchGot(UNAVAILABLE, false)).toHaveLength(1)
    expect(mismatchGot(locked, false)).toHaveLength(1)
    expect(mismatchGot(IN_FLIGHT, true)).toHaveLength(1)
    expect(mismatchGot({ ...locked, fencedOff: true }, true)).toHaveLength(1)
  })

  test('one that writes or calls is reported', () => {
    const { story } = begun()
    story.giveBack('client').write('mismatch', { attempts: 3 })
    story.call('mismatch', PHASE, { execution: 5 }).returnTo('mismatch', MISMATCH, OTHER_REQUEST)
    expect(broken('I12', story)).toMatchInlineSnapshot(`
      [
        "mismatch sent another request under the key and called 'charge_created'.",
        "mismatch sent another request under the key and wrote: UPDATE idempotency_keys.",
      ]
    `)
  })

  test('what an actor wrote when it sent the right request is not reported', () => {
    const story = begun().story.expireLease().takeOver('retry')
    story.returnTo('retry', MISMATCH, OTHER_REQUEST).returnTo('retry', story.retryLater())
    expect(broken('I12', story)).toEqual([])
  })

  test('whoever reserved the key sent the right request, and the others did not', () => {
    const { story } = begun()
    story.returnTo('client', story.retryLater(), { otherRequest: true }).returnTo('retry', MISMATCH)
    expect(broken('I12', story)).toEqual([])
  })

  test('the same request that gets a mismatch is reported', () => {
    expect(broken('I12', begun().story.returnTo('retry', MISMATCH))).toMatchInlineSnapshot(`
      [
        "retry sent the same request as the one that reserved the key, and got 'mismatch'.",
      ]
    `)
  })
})
