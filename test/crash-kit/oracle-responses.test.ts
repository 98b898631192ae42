import { describe, expect, test } from 'vitest'
import { begun } from './ride-histories.js'
import { json } from './sample-outcomes.js'
import { broken } from './broken.js'

const OK = json(201, { id: 7 })

/** A key that finished with a response. */
const answered = (response = OK) => begun().story.finish('client', response)

describe('I3: one response', () => {
  test('holds for the stored response, however often it is returned', () => {
    const story = answered()
    story.returnTo('client', story.completed(OK)).returnTo('late client', story.completed(OK, 'replayed'))
    expect(broken('I3', story)).toEqual([])
  })

  test.each([
    ['status', { ...OK, status: 200 }],
    ['header', { ...OK, headers: { 'content-type': 'application/json', location: '/rides/7' } }],
    ['byte', { ...OK, body: Buffer.from('{"id": 7}') }],
  ])('another %s than the stored one is reported', (_what, response) => {
    const story = answered()
    expect(broken('I3', story.returnTo('client', story.completed(response)))).toHaveLength(1)
  })

  test('the violation shows both responses', () => {
    const story = answered()
    story.returnTo('client', story.completed({ ...OK, body: Buffer.from('{"id": 7}') }))
    expect(broken('I3', story)).toMatchInlineSnapshot(`
      [
        "client got 'completed' with 201 {"content-type":"application/json"} "{\\"id\\": 7}", but the row has 201 {"content-type":"application/json"} "{\\"id\\":7}".",
      ]
    `)
  })

  test('the order of headers does not count', () => {
    const story = answered(json(201, {}, { a: '1', b: '2' }))
    const turned = { status: 201, headers: { b: '2', a: '1', 'content-type': 'application/json' } }
    expect(
      broken('I3', story.returnTo('client', story.completed({ ...turned, body: Buffer.from('{}') }))),
    ).toEqual([])
  })

  test('two callers that got different responses are reported, even if no row is known', () => {
    const { story } = begun()
    story.returnTo('client', story.completed(OK)).returnTo('retry', story.completed(json(201, { id: 8 })))
    expect(broken('I3', story)).toMatchInlineSnapshot(`
      [
        "retry got 'completed' with 201 {"content-type":"application/json"} "{\\"id\\":8}", but before that, client got 201 {"content-type":"application/json"} "{\\"id\\":7}".",
      ]
    `)
  })

  test('a stored response that is replaced or lost is reported', () => {
    expect(broken('I3', answered().write('client', { response_status: 200 }))).toMatchInlineSnapshot(`
      [
        "client replaced the stored 201 {"content-type":"application/json"} "{\\"id\\":7}" by 200 {"content-type":"application/json"} "{\\"id\\":7}".",
      ]
    `)
    expect(broken('I3', answered().write('client', { response_status: null }))).toHaveLength(1)
  })

  test('a key that was deleted and sent again has a response of its own', () => {
    const story = answered()
    story.returnTo('client', story.completed(OK)).expire().reap().reserve('retry')
    const next = json(201, { id: 8 })
    story.finish('retry', next).returnTo('retry', story.completed(next))
    expect(broken('I3', story)).toEqual([])
  })
})

describe('I7: nothing uncertain becomes final', () => {
  test('holds for a refusal that was stored', () => {
    const response = json(402, {})
    const story = answered(response)
    expect(broken('I7', story.returnTo('client', story.completed(response)))).toEqual([])
  })

  test.each([500, 503, 408, 425, 429])('a stored %d is reported', (status) => {
    expect(broken('I7', answered(json(status, {})))).toEqual([
      `client stored a response with status ${status}, which a retry can change, under fence 1.`,
    ])
  })

  test('it is reported once, however often the row is written afterwards', () => {
    expect(broken('I7', answered(json(503, {})).raise('client'))).toHaveLength(1)
  })

  test.each(['completed', 'replayed'] as const)("'%s' of a key that never finished is reported", (type) => {
    const { story } = begun()
    expect(broken('I7', story.returnTo('client', story.completed(OK, type)))).toHaveLength(1)
  })

  test('the violation names the caller, the status and the key', () => {
    const { story } = begun()
    expect(broken('I7', story.returnTo('client', story.completed(OK)))).toMatchInlineSnapshot(`
      [
        "client got 'completed' with 201, but the key 00000001-0000-4000-8000-000000000004 was never finished.",
      ]
    `)
  })
})
