import { connect } from 'node:net'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { judgeSentAt } from '../../packages/fastify-adapter/src/judge-sent-at.js'
import { audit, keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { type RideApp, rideApp } from '../support/ride-app.js'

const NAME = 'idempotency-sent-at'
const HOUR_MS = 3_600_000
/** Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110. */
const MOMENT_MS = 784_111_777_000
const SETTINGS = { header: NAME, maxAgeMs: HOUR_MS, maxSkewMs: 60_000, required: false }

/** What is said of these headers at this moment of the process's clock. */
function judged(values: readonly string[], nowMs = MOMENT_MS, settings: object = {}, hasKey = true) {
  const rawHeaders = ['host', 'x', ...values.flatMap((value) => ['Idempotency-Sent-At', value])]
  return judgeSentAt(rawHeaders, { ...SETTINGS, ...settings }, { hasKey, nowMs })
}
const code = (of: string) => expect.objectContaining({ code: of }) as object

test.each(['Sun, 06 Nov 1994 08:49:37 GMT', ' Sun, 06 Nov 1994 08:49:37 GMT\t', '@784111777'])(
  '%j is that moment, to the second',
  (value) => {
    const at = (nowMs: number) => judged([value], nowMs, { maxAgeMs: 1_000, maxSkewMs: 0 })
    expect(at(MOMENT_MS)).toBeNull()
    expect(at(MOMENT_MS + 1_000)).toBeNull()
    expect(at(MOMENT_MS + 1_001)).toEqual(code('sent_at_too_old'))
    expect(at(MOMENT_MS - 1)).toEqual(code('sent_at_in_future'))
  },
)

test.each([
  '',
  '@',
  '@x',
  '@1.5',
  '@784111777, @784111777',
  // Fifteen digits are syntax, and no moment: the comparison with NaN would let it through.
  '@999999999999999',
  '@-999999999999999',
  '@7841117770000000',
  '@784111777;a=1',
  '784111777',
  '"@784111777"',
  '1994-11-06T08:49:37Z',
  'Sunday, 06-Nov-94 08:49:37 GMT',
  'Sun Nov  6 08:49:37 1994',
  'Sun, 06 Nov 1994 08:49:37 UTC',
  'Sun, 06 Nov 1994 08:49:37 +0100',
  'sun, 06 nov 1994 08:49:37 gmt',
  'Mon, 06 Nov 1994 08:49:37 GMT',
  'Wed, 31 Feb 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 24:00:00 GMT',
  'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
])('%j is no moment', (value) => {
  expect(judged([value])).toEqual(code('sent_at_invalid'))
})

test('two headers are refused, also two with the same value', () => {
  expect(judged(['@784111777', '@784111777'])).toEqual(code('sent_at_invalid'))
})

test('where it is required, a request with a key has to have it; one without a key is new anyway', () => {
  expect(judged([])).toBeNull()
  expect(judged([], MOMENT_MS, { required: true })).toEqual(code('sent_at_missing'))
  expect(judged([], MOMENT_MS, { required: true }, false)).toBeNull()
  expect(judged(['@1'], MOMENT_MS, { required: true }, false)).toEqual(code('sent_at_too_old'))
})

const sentAt = { maxAgeMs: HOUR_MS, maxSkewMs: 60_000 }
const ago = (ms: number) => ({ headers: { [NAME]: new Date(Date.now() - ms).toUTCString() } })

async function expectNothingDone({ database }: RideApp): Promise<void> {
  expect(await keyRows(database)).toEqual([])
  expect(await audit(database)).toEqual([])
}

test('what is too old, from the future, or unreadable is refused before anything is reserved', async () => {
  const rides = await rideApp({ plugin: { sentAt } })
  for (const [more, problem] of [
    [ago(2 * HOUR_MS), 'sent_at_too_old'],
    [ago(-HOUR_MS), 'sent_at_in_future'],
    [{ headers: { [NAME]: 'yesterday' } }, 'sent_at_invalid'],
  ] as const) {
    const answer = await send(rides.app, more)
    expect(answer.statusCode).toBe(400)
    expect(answer.json()).toMatchObject({ code: problem })
    expect(answer.headers['retry-after']).toBeUndefined()
  }
  await expectNothingDone(rides)
})

test('what is young enough is answered as ever, and so is its retry', async () => {
  const { app } = await rideApp({ plugin: { sentAt } })
  expect((await send(app, ago(HOUR_MS / 2))).statusCode).toBe(201)
  const retry = await send(app, ago(HOUR_MS / 2))
  expect(retry.headers['idempotency-replayed']).toBe('true')
  // The time is no part of the fingerprint; and where it is not required, a client may leave it out.
  expect((await send(app)).headers['idempotency-replayed']).toBe('true')
})

test('a retry that is too old gets no replay either, since the next one might find no key', async () => {
  const { app } = await rideApp({ plugin: { sentAt } })
  expect((await send(app)).statusCode).toBe(201)
  expect((await send(app, ago(2 * HOUR_MS))).json()).toMatchObject({ code: 'sent_at_too_old' })
})

test('where it is required, a request without it is refused', async () => {
  const rides = await rideApp({ plugin: { sentAt: { ...sentAt, required: true } } })
  expect((await send(rides.app)).json()).toMatchObject({ code: 'sent_at_missing' })
  await expectNothingDone(rides)
})

test('a refused request without a key names none', async () => {
  const rides = await rideApp({ plugin: { sentAt }, route: { required: false } })
  const answer = await sendWithoutKey(rides.app)
  expect(answer.headers['idempotency-key']).toMatch(/^generated-/)
  const refused = await rides.app.inject({
    method: 'POST',
    url: '/rides',
    payload: { amount: 20 },
    headers: { authorization: 'Bearer ann', [NAME]: '@1' },
  })
  expect(refused.json()).toMatchObject({ code: 'sent_at_too_old' })
  expect(refused.headers['idempotency-key']).toBeUndefined()
})

const atomic = (retentionMs: number) =>
  rideApp({
    routes: (app) =>
      void app.post('/notes', { idempotency: { atomic: { retentionMs }, sentAt } }, () => ({ ok: true })),
  })

test('that is accepted for as long as keys are kept is refused: nobody could tell whose key was deleted', async () => {
  const day = { maxAgeMs: 24 * HOUR_MS - 60_000, maxSkewMs: 60_000 }
  const told = 'sentAt is'
  const strict = await rideApp({ plugin: { sentAt: day } })
  expect((await send(strict.app)).statusCode).toBe(500)
  expect(strict.log).toContainEqual(
    expect.objectContaining({ err: expect.objectContaining({ message: expect.stringContaining(told) }) }),
  )
  await expectNothingDone(strict)
  const lax = await rideApp({ plugin: { sentAt: day, strict: false } })
  expect((await send(lax.app)).statusCode).toBe(201)
  const less = await rideApp({ plugin: { sentAt: { ...day, maxSkewMs: 59_999 } } })
  expect((await send(less.app)).statusCode).toBe(201)

  await expect(atomic(HOUR_MS)).rejects.toThrow('idempotency of POST /notes: sentAt is')
  await expect(atomic(2 * HOUR_MS)).resolves.toBeDefined()
})

test('nobody reads it unless told to, and a route may go without or have its own', async () => {
  const off = await rideApp()
  expect((await send(off.app, { headers: { [NAME]: 'nonsense' } })).statusCode).toBe(201)
  const exempt = await rideApp({ plugin: { sentAt }, route: { sentAt: false } })
  expect((await send(exempt.app, ago(2 * HOUR_MS))).statusCode).toBe(201)
  const own = await rideApp({ plugin: { sentAt }, route: { sentAt: { maxAgeMs: 1_000, header: 'X-Sent' } } })
  expect((await send(own.app, { headers: { 'x-sent': '@1' } })).json()).toMatchObject({
    code: 'sent_at_too_old',
  })
})

test('a client that sends it twice is refused, as its headers arrive', async () => {
  const { app } = await rideApp({ plugin: { sentAt } })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const socket = connect(port, '127.0.0.1')
  const now = `@${Math.trunc(Date.now() / 1_000)}`
  const head = ['POST /rides HTTP/1.1', 'host: x', 'authorization: Bearer ann', 'idempotency-key: k1']
  const rest = [`${NAME}: ${now}`, `${NAME}: ${now}`, 'content-type: application/json', 'content-length: 13']
  socket.write([...head, ...rest, 'connection: close', '', '{"amount":20}'].join('\r\n'))
  let answer = ''
  socket.on('data', (part: Buffer) => (answer += part.toString()))
  await once(socket, 'close')
  expect(answer).toContain('400 Bad Request')
  expect(answer).toContain('sent_at_invalid')
})
