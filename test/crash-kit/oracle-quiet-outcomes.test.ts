import { describe, expect, test } from 'vitest'
import { cleanRunOf } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import type { HistoryBuilder } from './history-builder.js'
import { begun, cleanRide, RIDES } from './ride-histories.js'
import { IN_FLIGHT, json, REFUSED, UNAVAILABLE } from './sample-outcomes.js'
import { broken } from './broken.js'

const PHASE = 'charge_created'
const OK = json(201, { id: 7 })

/** A key that finished with a response. */
const answered = (response = OK) => begun().story.finish('client', response)

const retryingByItself = (run: number) => {
  const { story } = begun(run)
  return story.returnTo('client', story.retryLater())
}

const complaintsOfLater = (story: HistoryBuilder) =>
  broken('outcome', story.returnTo('late client', story.retryLater(), { execution: 4 }))

const stuckOutcome = (story: HistoryBuilder) => {
  story.markStuck('client', 'unknown_outcome')
  return story.returnTo('late client', story.stuck())
}

const laterOutcome = (story: HistoryBuilder) => story.returnTo('late client', story.retryLater())

const quietRide = () => begun().story

/** A ride in which a fault struck somebody else. */
const struck = () => quietRide().returnTo('client', IN_FLIGHT, { disturbed: true, execution: 7 })

describe('outcome: nobody is sent away without a fault', () => {
  test.each([UNAVAILABLE, REFUSED])('$type needs a fault in this very execution', (outcome) => {
    expect(broken('outcome', quietRide().returnTo('late client', outcome))).toHaveLength(1)
    expect(broken('outcome', struck().returnTo('late client', outcome))).toHaveLength(1)
    expect(broken('outcome', quietRide().returnTo('late client', outcome, { disturbed: true }))).toEqual([])
  })

  test("'retry_later' and 'stuck' may follow from another's fault", () => {
    expect(broken('outcome', laterOutcome(quietRide()))).toMatchInlineSnapshot(`
      [
        "late client got 'retry_later' at 'ride_created' (transient_error), but no fault had struck.",
      ]
    `)
    expect(broken('outcome', stuckOutcome(quietRide()))).toMatchInlineSnapshot(`
      [
        "late client got 'stuck' at 'ride_created' (unknown_outcome), but no fault had struck.",
      ]
    `)
    expect(broken('outcome', laterOutcome(struck()))).toEqual([])
    expect(broken('outcome', stuckOutcome(struck()))).toEqual([])
  })

  test('the violation shows the error', () => {
    const { story } = begun()
    story.returnTo(
      'client',
      story.retryLater({ reason: 'unknown_error', error: new TypeError('x is undefined') }),
    )
    expect(broken('outcome', story.returnTo('client', UNAVAILABLE))).toMatchInlineSnapshot(`
      [
        "client got 'retry_later' at 'ride_created' (unknown_error: x is undefined), but no fault had struck.",
        "client got 'unavailable' (store: no connection), but no fault had struck.",
      ]
    `)
  })

  test('a crash is recognised by what the dead actor left', () => {
    expect(complaintsOfLater(quietRide().call('client', PHASE, { execution: 3 }))).toEqual([])
    expect(complaintsOfLater(quietRide().write('kit', {}))).toEqual([])
    const past = quietRide().now(-1)
    expect(
      complaintsOfLater(quietRide().write('client', { lease_until: past }).takeOver('late client')),
    ).toEqual([])
    expect(complaintsOfLater(quietRide().giveBack('client').takeOver('late client'))).toHaveLength(1)
  })

  test("'gone' is right only for a key that is gone", () => {
    const gone = { type: 'gone' } as const
    expect(broken('outcome', quietRide().returnTo('completer', gone))).toMatchInlineSnapshot(`
      [
        "completer got 'gone', but no fault had struck.",
      ]
    `)
    expect(broken('outcome', answered().expire().reap().returnTo('completer', gone))).toEqual([])
  })

  test('a pipeline that asks for a retry by itself may', () => {
    const clean = cleanRunOf(retryingByItself(1).build(), retryingByItself(2).build(), [])
    const told = judge(retryingByItself(3).build(), RIDES, clean).filter(({ rule }) => rule === 'outcome')
    expect(told).toEqual([])
  })

  test("final responses and 'in_flight' need no fault", () => {
    expect(broken('outcome', cleanRide().returnTo('rival', IN_FLIGHT))).toEqual([])
  })
})
