import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { lasting, send } from '../support/http-client.js'
import {
  askForRide,
  askUntilAnswered,
  expectBalancedBooks,
  json,
  newKey,
  pointOf,
  PRICE,
  RIDE,
  trailOf,
} from '../support/rides-client.js'
import { Rides, until } from '../support/rides-processes.js'

const rides = await Rides.start()
afterAll(() => rides.end())
afterEach(() => expectBalancedBooks(rides))

const api = await rides.startApi()
const { url } = api

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/

function get(path: string, token = 'rider-1') {
  return send(url, { method: 'GET', path, headers: { authorization: `Bearer ${token}` } })
}

const countKeys = () => rides.rows('SELECT count(*) FROM pawl.idempotency_keys')

/** Sends a POST that should store nothing, and checks that it did not. */
async function refused(toSend: Parameters<typeof send>[1]) {
  const before = await countKeys()
  const answer = await send(url, toSend)
  expect(await countKeys()).toEqual(before)
  return answer
}

describe('POST /rides', () => {
  test('a ride is created, charged and answered with 201', async () => {
    const answer = await askForRide(url, newKey())
    const [charge] = (await rides.ledger()).slice(-1)
    expect(answer.status).toBe(201)
    expect(json(answer)).toEqual({
      id: expect.stringMatching(UUID),
      charge_id: charge?.id,
      ...PRICE,
      status: 'charged',
    })
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      location: `/rides/${String(json(answer)['id'])}`,
      'idempotency-expires': expect.stringMatching(/ GMT$/),
    })
    expect(answer.headers).not.toHaveProperty('idempotency-replayed')
  })

  test('the same request again gets the same answer byte for byte, and charges nothing', async () => {
    const key = newKey()
    const first = await askForRide(url, key)
    const charges = await rides.ledger()
    const second = await askForRide(url, key)
    expect(lasting(second)).toEqual(lasting(first))
    expect(second.headers['idempotency-replayed']).toBe('true')
    expect(await rides.ledger()).toEqual(charges)
  })

  test("another rider's key of the same name is another request", async () => {
    const key = newKey()
    const [one, other] = [await askForRide(url, key), await askForRide(url, key, { token: 'rider-2' })]
    expect([one.status, other.status]).toEqual([201, 201])
    expect(json(one)['id']).not.toBe(json(other)['id'])
  })

  test('a declined card is answered with 402, which is stored and replayed', async () => {
    const key = newKey()
    const first = await askForRide(url, key, { token: 'rider-declined' })
    expect(first.status).toBe(402)
    expect(json(first)).toEqual({ code: 'card_declined', reason: 'generic_decline' })
    const second = await askForRide(url, key, { token: 'rider-declined' })
    expect(lasting(second)).toEqual(lasting(first))
    expect(second.headers['idempotency-replayed']).toBe('true')
  })

  test('while the first request is running, the second gets 409 and when to come back', async () => {
    const key = newKey()
    await rides.provoke('slow')
    const first = askForRide(url, key)
    await until('the call to the provider', async () => (await pointOf(rides, key)) === 'ride_created')
    const second = await askForRide(url, key)
    expect(second.status).toBe(409)
    expect(json(second)).toMatchObject({ code: 'request_in_progress', status: 409 })
    expect(Number(second.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect((await first).status).toBe(201)
    expect(lasting(await askForRide(url, key))).toEqual(lasting(await first))
  })

  test('other content under a used key is refused with 422', async () => {
    const key = newKey()
    await askForRide(url, key)
    const answer = await askForRide(url, key, { body: { ...RIDE, target_lat: 1 } })
    expect(answer.status).toBe(422)
    expect(json(answer)).toMatchObject({ code: 'idempotency_key_reused' })
  })

  test('an outage of the provider is a 503, and a retry resumes without a second ride', async () => {
    const key = newKey()
    await rides.provoke('error_before')
    const first = await askForRide(url, key)
    expect(first.status).toBe(503)
    expect(json(first)).toMatchObject({ code: 'temporarily_unavailable' })
    expect(Number(first.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    // The completer may be working on it already, or have finished it.
    expect((await askUntilAnswered(() => url, key)).answer.status).toBe(201)
    expect(await trailOf(rides, key)).toEqual(['ride_created', 'charge_created', 'finished'])
  })

  const authorization = 'Bearer rider-1'

  test('no key is refused with 400', async () => {
    // The header cannot be left out with `send`, which has a default for it.
    const before = await countKeys()
    const answer = await fetch(`${url}/rides`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify(RIDE),
    })
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ code: 'idempotency_key_missing' })
    expect(await countKeys()).toEqual(before)
  })

  test.each([
    ['an empty key', '', 'idempotency_key_invalid'],
    ['a key of 256 characters', 'k'.repeat(256), 'idempotency_key_invalid'],
    ['half a quoted key', '"k', 'idempotency_key_invalid'],
    ['two keys', 'a, b', 'idempotency_key_repeated'],
  ])('%s is refused with 400', async (_, key, code) => {
    const answer = await refused({ body: RIDE, headers: { authorization, 'idempotency-key': key } })
    expect(answer.status).toBe(400)
    expect(json(answer)).toMatchObject({ code })
  })

  test.each([
    ['a coordinate that is missing', { ...RIDE, origin_lat: undefined }],
    ['a latitude that does not exist', { ...RIDE, target_lat: 91 }],
    ['a longitude that does not exist', { ...RIDE, origin_lon: -181 }],
    ['a coordinate that is no number', { ...RIDE, target_lon: 'west' }],
    ['no object at all', [RIDE]],
  ])('%s is refused with 400', async (_, body) => {
    const answer = await refused({ body, headers: { authorization, 'idempotency-key': newKey() } })
    expect(answer.status).toBe(400)
  })

  test('after a refusal of the content, the key is still unused', async () => {
    const key = newKey()
    expect((await askForRide(url, key, { body: {} })).status).toBe(400)
    expect((await askForRide(url, key)).status).toBe(201)
  })

  test.each([
    ['no token', {}],
    ['an unknown token', { authorization: 'Bearer nobody' }],
    ['another kind of credentials', { authorization: 'Basic rider-1' }],
  ])('%s is refused with 401', async (_, credentials) => {
    const headers = { authorization: '', 'idempotency-key': newKey(), ...credentials }
    const answer = await refused({ body: RIDE, headers })
    expect(answer.status).toBe(401)
    expect(answer.headers['www-authenticate']).toBe('Bearer')
  })
})

describe('GET', () => {
  test('a ride is shown to its owner, and is a 404 for everybody else', async () => {
    const created = json(await askForRide(url, newKey()))
    const path = `/rides/${String(created['id'])}`
    const own = await get(path)
    expect(own.status).toBe(200)
    expect(json(own)).toEqual({ ...created, ...RIDE })
    expect((await get(path, 'rider-2')).status).toBe(404)
    expect((await get(path, 'nobody')).status).toBe(401)
  })

  test('a ride whose card was declined is shown as not charged', async () => {
    const key = newKey()
    await askForRide(url, key, { token: 'rider-declined' })
    const [ride] = await rides.rows<{ id: string }>(
      'SELECT r.id FROM rides AS r JOIN pawl.idempotency_keys AS k ON k.id = r.key_id WHERE k.key = $1',
      [key],
    )
    const shown = await get(`/rides/${ride?.id}`, 'rider-declined')
    expect(json(shown)).toMatchObject({ charge_id: null, status: 'pending' })
  })

  test('a ride that never existed is a 404, and something that is not a UUID a 400', async () => {
    expect((await get('/rides/00000000-0000-4000-8000-000000000000')).status).toBe(404)
    expect((await get('/rides/1')).status).toBe(400)
  })

  test('the health check needs no token', async () => {
    const answer = await get('/healthz', '')
    expect(answer.status).toBe(200)
    expect(json(answer)).toEqual({ status: 'ok' })
  })
})
