import { describe, expect, test } from 'vitest'
import type { HistoryBuilder } from './history-builder.js'
import { begun, crashedRide } from './ride-histories.js'
import { EXPIRED, FENCED_OFF, json, LIMITED, REFUSED, UNAVAILABLE } from './sample-outcomes.js'
import { broken } from './broken.js'

const PHASE = 'charge_created'
const OK = json(201, { id: 7 })

/** A key that finished with a response. */
const answered = (response = OK) => begun().story.finish('client', response)

const sentTooLate = (story: HistoryBuilder) =>
  story.returnTo('retry', EXPIRED, { disturbed: true, row: null })

describe('outcome: an outcome agrees with the row', () => {
  const disturbed = { disturbed: true }

  test('holds for each outcome and its row', () => {
    const { story } = begun()
    story.returnTo('client', story.retryLater(), disturbed)
    expect(
      broken(
        'outcome',
        story.markStuck('client', 'unknown_outcome').returnTo('client', story.stuck(), disturbed),
      ),
    ).toEqual([])
    expect(broken('outcome', crashedRide())).toEqual([])
  })

  test("'completed' of a row that is not finished is reported", () => {
    const { story } = begun()
    expect(broken('outcome', story.returnTo('client', story.completed(OK)))).toMatchInlineSnapshot(`
      [
        "client got 'completed', but the row was running at 'ride_created' under fence 1.",
      ]
    `)
  })

  test("'limited' of a key that is there is reported, whatever had struck", () => {
    const { story } = begun()
    expect(broken('outcome', story.returnTo('retry', LIMITED, disturbed))).toMatchInlineSnapshot(`
      [
        "retry got 'limited', but the key had been reserved before.",
      ]
    `)
    expect(broken('outcome', begun().story.returnTo('other', LIMITED, { ...disturbed, row: null }))).toEqual(
      [],
    )
  })

  test("'expired' of a key that nobody has deleted is reported", () => {
    expect(broken('outcome', sentTooLate(answered()))).toMatchInlineSnapshot(`
      [
        "retry got 'expired', but nobody had deleted the key.",
      ]
    `)
    expect(broken('outcome', sentTooLate(answered().expire().reap()))).toEqual([])
  })

  test("'stuck' of a row that is not stuck is reported", () => {
    const { story } = begun()
    expect(broken('outcome', story.returnTo('client', story.stuck(), disturbed))).toMatchInlineSnapshot(`
      [
        "client got 'stuck' (unknown_outcome), but the row was running at 'ride_created' under fence 1.",
      ]
    `)
  })

  test("'retry_later' of a row that is finished, or at another point, is reported", () => {
    const story = answered()
    const late = { recoveryPoint: 'finished' }
    expect(broken('outcome', story.returnTo('client', story.retryLater(late), disturbed)))
      .toMatchInlineSnapshot(`
        [
          "client got 'retry_later' at 'finished' (transient_error), but the row was finished at 'finished' under fence 1.",
        ]
      `)
    const behind = begun().story
    behind.returnTo('client', behind.retryLater({ recoveryPoint: 'started' }), disturbed)
    expect(broken('outcome', behind)).toMatchInlineSnapshot(`
      [
        "client got 'retry_later' at 'started' (transient_error), but the row was running at 'ride_created' under fence 1.",
      ]
    `)
  })

  test('holds if somebody else has the row, or it belongs to another request', () => {
    const { story } = begun()
    const outcome = story.retryLater()
    story.expireLease().takeOver('retry').finish('retry', OK).returnTo('client', outcome, disturbed)
    expect(broken('outcome', story)).toEqual([])
    const again = answered()
    const [before, stuck] = [again.retryLater({ recoveryPoint: 'ride_created' }), again.stuck()]
    const completed = again.completed(OK)
    again.expire().reap().reserve('client')
    again
      .returnTo('client', before, disturbed)
      .returnTo('client', stuck, disturbed)
      .returnTo('client', completed)
    expect(broken('outcome', again)).toEqual([])
  })

  test('holds if the row is unknown', () => {
    const { story } = begun()
    expect(broken('outcome', story.returnTo('client', story.completed(OK), { row: null }))).toEqual([])
  })

  test("two callers that got 'completed' are reported", () => {
    const story = answered()
    story.returnTo('client', story.completed(OK)).returnTo('retry', story.completed(OK))
    expect(broken('outcome', story)).toMatchInlineSnapshot(`
      [
        "client and retry got 'completed' for the key 00000001-0000-4000-8000-000000000004: only one can have finished it.",
      ]
    `)
  })

  test('holds for a fenced-off holder whose key was taken over, by another or by a person, or is gone', () => {
    expect(
      broken('outcome', begun().story.expireLease().takeOver('retry').returnTo('client', FENCED_OFF)),
    ).toEqual([])
    expect(broken('outcome', begun().story.steer({}).returnTo('client', FENCED_OFF))).toEqual([])
    expect(broken('outcome', answered().expire().reap().returnTo('client', FENCED_OFF))).toEqual([])
  })

  test('a holder that was fenced off by nobody is reported', () => {
    expect(broken('outcome', begun().story.raise('client').returnTo('client', FENCED_OFF)))
      .toMatchInlineSnapshot(`
        [
          "client got 'in_flight' (fenced off), but the row was running at 'ride_created' under fence 2.",
          "client got 'in_flight' (fenced off), but nobody took the key over from it.",
        ]
      `)
    const unknown = begun().story.expireLease().takeOver('retry').returnTo('retry', FENCED_OFF, { row: null })
    expect(broken('outcome', unknown)).toHaveLength(1)
  })

  test('an actor that has the key again was not fenced off, whatever happened before', () => {
    const { story } = begun()
    story.expireLease().takeOver('retry').giveBack('retry').takeOver('client').returnTo('client', FENCED_OFF)
    expect(broken('outcome', story)).toEqual([
      "client got 'in_flight' (fenced off), but the row was running at 'ride_created' under fence 3.",
    ])
    expect(
      broken('outcome', answered().raise('client').takeOver('x').returnTo('x', FENCED_OFF)),
    ).toHaveLength(1)
  })

  test.each([UNAVAILABLE, REFUSED, { type: 'gone' } as const])(
    'an actor that gets $type has made no call',
    (outcome) => {
      const called = (execution: number) =>
        answered().reap('kit').call('client', PHASE, { execution }).returnTo('client', outcome, disturbed)
      expect(broken('outcome', called(2))).toEqual([])
      expect(broken('outcome', called(1))).toEqual([
        `client got '${outcome.type}', but had made the call of 'charge_created'.`,
      ])
    },
  )
})
