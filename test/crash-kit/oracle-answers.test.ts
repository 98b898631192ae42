import { describe, expect, test } from 'vitest'
import { cleanRunOf } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import {
  begun,
  cleanRide,
  crashedRide,
  FENCED_OFF,
  type HistoryBuilder,
  IN_FLIGHT,
  json,
  MISMATCH,
  REFUSED,
  RIDES,
  UNAVAILABLE,
} from './history-builder.js'

/** What the rule says of the story. */
function broken(rule: string, story: HistoryBuilder): string[] {
  return judge(story.build(), RIDES, null)
    .filter((violation) => violation.rule === rule)
    .map(({ detail }) => detail)
}

const PHASE = 'charge_created'
const OK = json(201, { id: 7 })

/** A key that finished with a response. */
const answered = (response = OK) => begun().story.finish('client', response)

describe('I3: one response', () => {
  test('holds for the stored response, told again and again', () => {
    const story = answered()
    story.tell('client', story.completed(OK)).tell('late client', story.completed(OK, 'replayed'))
    expect(broken('I3', story)).toEqual([])
  })

  test.each([
    ['status', { ...OK, status: 200 }],
    ['header', { ...OK, headers: { 'content-type': 'application/json', location: '/rides/7' } }],
    ['byte', { ...OK, body: Buffer.from('{"id": 7}') }],
  ])('another %s than the stored one is seen', (_what, response) => {
    const story = answered()
    expect(broken('I3', story.tell('client', story.completed(response)))).toHaveLength(1)
  })

  test('it says both', () => {
    const story = answered()
    story.tell('client', story.completed({ ...OK, body: Buffer.from('{"id": 7}') }))
    expect(broken('I3', story)).toMatchInlineSnapshot(`
      [
        "client was told 'completed' with 201 {"content-type":"application/json"} "{\\"id\\": 7}", and the row has 201 {"content-type":"application/json"} "{\\"id\\":7}".",
      ]
    `)
  })

  test('the order of headers does not count', () => {
    const story = answered(json(201, {}, { a: '1', b: '2' }))
    const turned = { status: 201, headers: { b: '2', a: '1', 'content-type': 'application/json' } }
    expect(
      broken('I3', story.tell('client', story.completed({ ...turned, body: Buffer.from('{}') }))),
    ).toEqual([])
  })

  test('two that were told different things are seen, even where no row is known', () => {
    const { story } = begun()
    story.tell('client', story.completed(OK)).tell('retry', story.completed(json(201, { id: 8 })))
    expect(broken('I3', story)).toMatchInlineSnapshot(`
      [
        "retry was told 'completed' with 201 {"content-type":"application/json"} "{\\"id\\":8}", and before, client was told 201 {"content-type":"application/json"} "{\\"id\\":7}".",
      ]
    `)
  })

  test('a stored response that is replaced, or lost, is seen', () => {
    expect(broken('I3', answered().write('client', { response_status: 200 }))).toMatchInlineSnapshot(`
      [
        "client replaced the stored 201 {"content-type":"application/json"} "{\\"id\\":7}" by 200 {"content-type":"application/json"} "{\\"id\\":7}".",
      ]
    `)
    expect(broken('I3', answered().write('client', { response_status: null }))).toHaveLength(1)
  })

  test('a key that was forgotten and sent again has a response of its own', () => {
    const story = answered()
    story.tell('client', story.completed(OK)).expire().reap().reserve('retry')
    const next = json(201, { id: 8 })
    story.finish('retry', next).tell('retry', story.completed(next))
    expect(broken('I3', story)).toEqual([])
  })
})

describe('I7: nothing uncertain becomes final', () => {
  test('holds for a refusal that was stored', () => {
    const response = json(402, {})
    const story = answered(response)
    expect(broken('I7', story.tell('client', story.completed(response)))).toEqual([])
  })

  test.each([500, 503, 408, 425, 429])('a stored %d is seen', (status) => {
    expect(broken('I7', answered(json(status, {})))).toEqual([
      `client stored a response with status ${status}, which a retry can change, under fence 1.`,
    ])
  })

  test('it is seen once, however often the row is written afterwards', () => {
    expect(broken('I7', answered(json(503, {})).raise('client'))).toHaveLength(1)
  })

  test.each(['completed', 'replayed'] as const)("'%s' of a key that never finished is seen", (type) => {
    const { story } = begun()
    expect(broken('I7', story.tell('client', story.completed(OK, type)))).toHaveLength(1)
  })

  test('it says so', () => {
    const { story } = begun()
    expect(broken('I7', story.tell('client', story.completed(OK)))).toMatchInlineSnapshot(`
      [
        "client was told 'completed' with 201, and the key 00000001-0000-4000-8000-000000000004 was never finished.",
      ]
    `)
  })
})

const IMPOSTOR = { impostor: true, execution: 5 }

const impostorTold = (outcome: typeof UNAVAILABLE | typeof IN_FLIGHT, disturbed: boolean) =>
  broken('I12', begun().story.tell('impostor', outcome, { ...IMPOSTOR, disturbed }))

describe('I12: another request under the same key', () => {
  test('holds for a mismatch', () => {
    expect(broken('I12', begun().story.tell('impostor', MISMATCH, IMPOSTOR))).toEqual([])
  })

  test('anything else is seen', () => {
    const story = answered()
    story.tell('impostor', story.completed(OK, 'replayed'), IMPOSTOR)
    expect(broken('I12', story)).toMatchInlineSnapshot(`
      [
        "impostor sent another request under the key and was told 'replayed'.",
      ]
    `)
    expect(broken('I12', begun().story.tell('impostor', IN_FLIGHT, IMPOSTOR))).toHaveLength(1)
  })

  test('who could not look at the row cannot know, if a fault had struck', () => {
    const locked = { ...IN_FLIGHT, leaseLeftMs: null }
    expect(impostorTold(UNAVAILABLE, true)).toEqual([])
    expect(impostorTold(locked, true)).toEqual([])
    expect(impostorTold(UNAVAILABLE, false)).toHaveLength(1)
    expect(impostorTold(locked, false)).toHaveLength(1)
    expect(impostorTold(IN_FLIGHT, true)).toHaveLength(1)
    expect(impostorTold({ ...locked, fencedOff: true }, true)).toHaveLength(1)
  })

  test('one that writes or calls is seen', () => {
    const { story } = begun()
    story.giveBack('client').write('impostor', { attempts: 3 })
    story.call('impostor', PHASE, { execution: 5 }).tell('impostor', MISMATCH, IMPOSTOR)
    expect(broken('I12', story)).toMatchInlineSnapshot(`
      [
        "impostor sent another request under the key and called 'charge_created'.",
        "impostor sent another request under the key and wrote: UPDATE idempotency_keys.",
      ]
    `)
  })

  test('what it wrote when it sent the right request is its own', () => {
    const story = begun().story.expireLease().takeOver('retry')
    story.tell('retry', MISMATCH, IMPOSTOR).tell('retry', story.retryLater())
    expect(broken('I12', story)).toEqual([])
  })

  test('who comes first is no impostor, and the others are', () => {
    const { story } = begun()
    story.tell('client', story.retryLater(), { impostor: true }).tell('retry', MISMATCH)
    expect(broken('I12', story)).toEqual([])
  })

  test('the same request that is taken for another is seen', () => {
    expect(broken('I12', begun().story.tell('retry', MISMATCH))).toMatchInlineSnapshot(`
      [
        "retry sent the same request as the one that reserved the key, and was told 'mismatch'.",
      ]
    `)
  })
})

describe('told: what is told agrees with the row', () => {
  const disturbed = { disturbed: true }

  test('holds for each outcome and its row', () => {
    const { story } = begun()
    story.tell('client', story.retryLater(), disturbed)
    expect(
      broken('told', story.markStuck('client', 'unknown_outcome').tell('client', story.stuck(), disturbed)),
    ).toEqual([])
    expect(broken('told', crashedRide())).toEqual([])
  })

  test("'completed' of a row that is not finished is seen", () => {
    const { story } = begun()
    expect(broken('told', story.tell('client', story.completed(OK)))).toMatchInlineSnapshot(`
      [
        "client was told 'completed', and the row was running at 'ride_created' under fence 1.",
      ]
    `)
  })

  test("'stuck' of a row that is not stuck is seen", () => {
    const { story } = begun()
    expect(broken('told', story.tell('client', story.stuck(), disturbed))).toMatchInlineSnapshot(`
      [
        "client was told 'stuck' (unknown_outcome), and the row was running at 'ride_created' under fence 1.",
      ]
    `)
  })

  test("'retry_later' of a row that is finished, or elsewhere, is seen", () => {
    const story = answered()
    const late = { recoveryPoint: 'finished' }
    expect(broken('told', story.tell('client', story.retryLater(late), disturbed))).toMatchInlineSnapshot(`
      [
        "client was told 'retry_later' at 'finished' (transient_error), and the row was finished at 'finished' under fence 1.",
      ]
    `)
    const behind = begun().story
    behind.tell('client', behind.retryLater({ recoveryPoint: 'started' }), disturbed)
    expect(broken('told', behind)).toMatchInlineSnapshot(`
      [
        "client was told 'retry_later' at 'started' (transient_error), and the row was running at 'ride_created' under fence 1.",
      ]
    `)
  })

  test('a row that somebody else has, or that is of another time, says nothing', () => {
    const { story } = begun()
    const outcome = story.retryLater()
    story.expireLease().takeOver('retry').finish('retry', OK).tell('client', outcome, disturbed)
    expect(broken('told', story)).toEqual([])
    const again = answered()
    const [before, stuck] = [again.retryLater({ recoveryPoint: 'ride_created' }), again.stuck()]
    const completed = again.completed(OK)
    again.expire().reap().reserve('client')
    again.tell('client', before, disturbed).tell('client', stuck, disturbed).tell('client', completed)
    expect(broken('told', again)).toEqual([])
  })

  test('an unknown row says nothing', () => {
    const { story } = begun()
    expect(broken('told', story.tell('client', story.completed(OK), { row: null }))).toEqual([])
  })

  test("two that are told 'completed' are seen", () => {
    const story = answered()
    story.tell('client', story.completed(OK)).tell('retry', story.completed(OK))
    expect(broken('told', story)).toMatchInlineSnapshot(`
      [
        "client and retry were told 'completed' for the key 00000001-0000-4000-8000-000000000004: only one can have finished it.",
      ]
    `)
  })

  test('who was fenced off was taken over from, by another or by a person, or its key is gone', () => {
    expect(broken('told', begun().story.expireLease().takeOver('retry').tell('client', FENCED_OFF))).toEqual(
      [],
    )
    expect(broken('told', begun().story.steer({}).tell('client', FENCED_OFF))).toEqual([])
    expect(broken('told', answered().expire().reap().tell('client', FENCED_OFF))).toEqual([])
  })

  test('who was fenced off by nobody is seen', () => {
    expect(broken('told', begun().story.raise('client').tell('client', FENCED_OFF))).toMatchInlineSnapshot(`
      [
        "client was told that it had been fenced off, and the row was running at 'ride_created' under fence 2.",
        "client was told that it had been fenced off, and nobody took the key over from it.",
      ]
    `)
    const unknown = begun().story.expireLease().takeOver('retry').tell('retry', FENCED_OFF, { row: null })
    expect(broken('told', unknown)).toHaveLength(1)
  })

  test('who has the key again was not fenced off, whatever was before', () => {
    const { story } = begun()
    story.expireLease().takeOver('retry').giveBack('retry').takeOver('client').tell('client', FENCED_OFF)
    expect(broken('told', story)).toEqual([
      "client was told that it had been fenced off, and the row was running at 'ride_created' under fence 3.",
    ])
    expect(broken('told', answered().raise('client').takeOver('x').tell('x', FENCED_OFF))).toHaveLength(1)
  })

  test.each([UNAVAILABLE, REFUSED, { type: 'gone' } as const])(
    'who is told $type has called nobody',
    (outcome) => {
      const called = (execution: number) =>
        answered().reap('kit').call('client', PHASE, { execution }).tell('client', outcome, disturbed)
      expect(broken('told', called(2))).toEqual([])
      expect(broken('told', called(1))).toEqual([
        `client was told '${outcome.type}', and had made the call of 'charge_created'.`,
      ])
    },
  )
})

const retryingByItself = (run: number) => {
  const { story } = begun(run)
  return story.tell('client', story.retryLater())
}

const complaintsOfLater = (story: HistoryBuilder) =>
  broken('told', story.tell('late client', story.retryLater(), { execution: 4 }))

const toldStuck = (story: HistoryBuilder) => {
  story.markStuck('client', 'unknown_outcome')
  return story.tell('late client', story.stuck())
}

const toldLater = (story: HistoryBuilder) => story.tell('late client', story.retryLater())

const quietRide = () => begun().story

/** Somebody else's fault. */
const struck = () => quietRide().tell('client', IN_FLIGHT, { disturbed: true, execution: 7 })

describe('told: nobody is sent away without a fault', () => {
  test.each([UNAVAILABLE, REFUSED])('$type is of this very execution', (outcome) => {
    expect(broken('told', quietRide().tell('late client', outcome))).toHaveLength(1)
    expect(broken('told', struck().tell('late client', outcome))).toHaveLength(1)
    expect(broken('told', quietRide().tell('late client', outcome, { disturbed: true }))).toEqual([])
  })

  test("'retry_later' and 'stuck' may follow from another's fault", () => {
    expect(broken('told', toldLater(quietRide()))).toMatchInlineSnapshot(`
      [
        "late client was told 'retry_later' at 'ride_created' (transient_error), and no fault had struck.",
      ]
    `)
    expect(broken('told', toldStuck(quietRide()))).toMatchInlineSnapshot(`
      [
        "late client was told 'stuck' at 'ride_created' (unknown_outcome), and no fault had struck.",
      ]
    `)
    expect(broken('told', toldLater(struck()))).toEqual([])
    expect(broken('told', toldStuck(struck()))).toEqual([])
  })

  test('it says the error', () => {
    const { story } = begun()
    story.tell(
      'client',
      story.retryLater({ reason: 'unknown_error', error: new TypeError('x is undefined') }),
    )
    expect(broken('told', story.tell('client', UNAVAILABLE))).toMatchInlineSnapshot(`
      [
        "client was told 'retry_later' at 'ride_created' (unknown_error: x is undefined), and no fault had struck.",
        "client was told 'unavailable' (store: no connection), and no fault had struck.",
      ]
    `)
  })

  test('a fault that killed is known by what the dead left', () => {
    expect(complaintsOfLater(quietRide().call('client', PHASE, { execution: 3 }))).toEqual([])
    expect(complaintsOfLater(quietRide().write('kit', {}))).toEqual([])
    const past = quietRide().now(-1)
    expect(
      complaintsOfLater(quietRide().write('client', { lease_until: past }).takeOver('late client')),
    ).toEqual([])
    expect(complaintsOfLater(quietRide().giveBack('client').takeOver('late client'))).toHaveLength(1)
  })

  test("'gone' is told of a key that is gone", () => {
    const gone = { type: 'gone' } as const
    expect(broken('told', quietRide().tell('completer', gone))).toMatchInlineSnapshot(`
      [
        "completer was told 'gone', and no fault had struck.",
      ]
    `)
    expect(broken('told', answered().expire().reap().tell('completer', gone))).toEqual([])
  })

  test('a pipeline that says so by itself may', () => {
    const clean = cleanRunOf(retryingByItself(1).build(), retryingByItself(2).build(), [])
    const told = judge(retryingByItself(3).build(), RIDES, clean).filter(({ rule }) => rule === 'told')
    expect(told).toEqual([])
  })

  test('answers and waiting need no fault', () => {
    expect(broken('told', cleanRide().tell('rival', IN_FLIGHT))).toEqual([])
  })
})
