import { once } from 'node:events'
import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { readKey } from '../../packages/fastify-adapter/src/read-key.js'
import { keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { type RideApp, rideApp } from '../support/ride-app.js'

const NAME = 'idempotency-key'
const KEY_OF_255 = 'k'.repeat(255)

const read = (...values: string[]) =>
  readKey(['host', 'x', ...values.flatMap((value) => ['Idempotency-Key', value]), NAME + '-not', 'y'], NAME)
const given = (key: string) => ({ type: 'given', key })
const invalid = { type: 'unusable', problem: { code: 'idempotency_key_invalid' } }
const repeated = { type: 'unusable', problem: { code: 'idempotency_key_repeated' } }

test.each([
  ['abc', 'abc'],
  ['"abc"', 'abc'],
  ['  abc \t', 'abc'],
  ['\t"abc" ', 'abc'],
  ['"abc";client=7', 'abc'],
  ['a', 'a'],
  ['"a"', 'a'],
  [KEY_OF_255, KEY_OF_255],
  [`"${KEY_OF_255}"`, KEY_OF_255],
  // With its escapes it is twice as long as the key.
  [`"${'\\"'.repeat(255)}"`, '"'.repeat(255)],
  ['"a\\"b\\\\c"', 'a"b\\c'],
  ['a\\b', 'a\\b'],
  ['"a, b"', 'a, b'],
  ['"it\'s  ~!"', "it's  ~!"],
  ['a b', 'a b'],
  ['" a "', ' a '],
  ['f81d4fae-7dec-11d0-a765-00a0c91e6bf6', 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'],
  // As structured fields these would have other types, but a bare key is only text.
  ['123', '123'],
  ['?1', '?1'],
  [':YWJj:', ':YWJj:'],
  ['@12', '@12'],
  ['abc;client=7', 'abc;client=7'],
])('%j names the key %j', (value, key) => {
  expect(read(value)).toEqual(given(key))
})

test.each([
  [''],
  [' '],
  ['""'],
  ['"'],
  ['"abc'],
  ['abc"'],
  ['a"b'],
  ['"abc"d'],
  ['"a\\b"'],
  ['"abc\\"'],
  [`${KEY_OF_255}k`],
  [`"${KEY_OF_255}k"`],
  ['a\tb'],
  ['"a\tb"'],
  ['a\u0000b'],
  ['a\u001fb'],
  ['a\u007fb'],
  ['"a\u007fb"'],
  ['caf\u00e9'],
  ['"caf\u00e9"'],
  ['\u00e9'],
  // JavaScript counts these as white space, and HTTP does not.
  ['\u00a0abc'],
  ['abc\u00a0'],
  ['\u000babc'],
  ['\u2028abc'],
])('%j is not a key', (value) => {
  expect(read(value)).toMatchObject(invalid)
})

test.each([
  [['a', 'b']],
  [['a', 'a']],
  [['"a"', 'a']],
  [['', '']],
  [['a, b']],
  [['a,b']],
  [['a,']],
  [[',']],
  [['a, a']],
  [['"a", "b"']],
  [['"a","a"']],
  [['"a" , b']],
  [['a, "b"']],
])('%j is more than one key', (values) => {
  expect(read(...values)).toMatchObject(repeated)
})

test('the header is found in upper or lower case, and by its whole name only', () => {
  expect(readKey(['X', NAME, 'IDEMPOTENCY-KEY', 'abc'], NAME)).toEqual(given('abc'))
  expect(readKey(['X', NAME, NAME + '2', 'abc'], NAME)).toEqual({ type: 'absent' })
  expect(readKey([], NAME)).toEqual({ type: 'absent' })
})

test('a quoted key and the same key without quotes are one request', async () => {
  const { app, database } = await rideApp()
  const first = await send(app, { headers: { [NAME]: '"abc"' } })
  const again = await send(app, { headers: { [NAME]: 'abc' } })
  expect([first.statusCode, again.statusCode]).toEqual([201, 201])
  expect(again.headers['idempotency-replayed']).toBe('true')
  expect(await keyRows(database)).toMatchObject([{ key: 'abc' }])
})

test.each([['a'], [KEY_OF_255], ['"\\"\\\\"'], ["it's ~!#"]])(
  'a request under %j is stored and replayed',
  async (key) => {
    const { app } = await rideApp()
    expect((await send(app, { headers: { [NAME]: key } })).statusCode).toBe(201)
    expect((await send(app, { headers: { [NAME]: key } })).headers['idempotency-replayed']).toBe('true')
  },
)

test('the header can have another name, and only that one counts', async () => {
  const { app, database } = await rideApp({ plugin: { header: 'X-Request-Key' } })
  const refused = await send(app)
  expect(refused.statusCode).toBe(400)
  expect(refused.json()).toMatchObject({
    code: 'idempotency_key_missing',
    detail: expect.stringContaining('x-request-key') as string,
  })
  const first = await send(app, { headers: { 'x-request-key': 'mine' } })
  expect(first.statusCode).toBe(201)
  expect(await keyRows(database)).toMatchObject([{ key: 'mine' }])
})

test('a generated key is sent back under the name of the header', async () => {
  const { app } = await rideApp({ plugin: { header: 'x-request-key' }, route: { required: false } })
  const first = await sendWithoutKey(app)
  expect(first.headers).not.toHaveProperty(NAME)
  const headers = { 'x-request-key': String(first.headers['x-request-key']) }
  expect((await send(app, { headers })).headers['idempotency-replayed']).toBe('true')
})

/** Sends a ride with exactly these header lines, as Latin-1 bytes, and returns everything that comes back. */
async function sendRaw(app: FastifyInstance, lines: readonly string[]): Promise<string> {
  const address = app.server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  const body = '{"amount":20}'
  const head = [
    'POST /rides HTTP/1.1',
    'Host: localhost',
    'Connection: close',
    'Authorization: Bearer ann',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    ...lines,
  ]
  const socket = connect(address.port, '127.0.0.1').setEncoding('latin1')
  let answer = ''
  socket.on('data', (text: string) => (answer += text))
  const closed = once(socket, 'close')
  socket.write(Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1'))
  await closed
  return answer
}

async function listening(): Promise<RideApp> {
  const server = await rideApp()
  await server.app.listen({ host: '127.0.0.1', port: 0 })
  return server
}

test.each([
  ['two lines', ['Idempotency-Key: a', 'Idempotency-Key: b'], 'repeated'],
  ['two equal lines', ['Idempotency-Key: a', 'idempotency-key: a'], 'repeated'],
  ['two quoted lines', ['Idempotency-Key: "a"', 'Idempotency-Key: "b"'], 'repeated'],
  ['two lines that a proxy joined', ['Idempotency-Key: a, b'], 'repeated'],
  ['two quoted keys that a proxy joined', ['Idempotency-Key: "a", "b"'], 'repeated'],
  ['an empty line beside a key', ['Idempotency-Key:', 'Idempotency-Key: a'], 'repeated'],
  ['an empty value', ['Idempotency-Key:'], 'invalid'],
  ['an empty string', ['Idempotency-Key: ""'], 'invalid'],
  ['blanks', ['Idempotency-Key:  \t '], 'invalid'],
  ['a string that does not end', ['Idempotency-Key: "a'], 'invalid'],
  ['256 characters', [`Idempotency-Key: ${KEY_OF_255}k`], 'invalid'],
  ['a tab', ['Idempotency-Key: a\tb'], 'invalid'],
  ['a byte of Latin-1', ['Idempotency-Key: caf\u00e9'], 'invalid'],
  ['a byte of Latin-1 in quotes', ['Idempotency-Key: "caf\u00e9"'], 'invalid'],
  ['UTF-8', [`Idempotency-Key: ${Buffer.from('日本').toString('latin1')}`], 'invalid'],
  ['a no-break space before the key', ['Idempotency-Key: \u00a0a'], 'invalid'],
  ['no header', [], 'missing'],
])('on the wire, %s is refused with 400, and writes no row', async (_, lines, code) => {
  const { app, database, provider } = await listening()
  const answer = await sendRaw(app, lines)
  expect(answer).toMatch(/^HTTP\/1.1 400 /)
  expect(answer).toMatch(/^content-type: application\/problem\+json\r$/im)
  expect(answer).toContain(`"code":"idempotency_key_${code}"`)
  expect(await keyRows(database)).toEqual([])
  expect(await provider.requests()).toEqual([])
})

test.each([['a\u0000b'], ['a\u0007b'], ['a\u007fb']])(
  'on the wire, the control character in %j is refused by us or by Node with 400, and writes no row',
  async (key) => {
    const { app, database } = await listening()
    expect(await sendRaw(app, [`Idempotency-Key: ${key}`])).toMatch(/^HTTP\/1.1 400 /)
    expect(await keyRows(database)).toEqual([])
  },
)

test('on the wire, blanks around a key and the case of the name do not matter', async () => {
  const { app, database } = await listening()
  expect(await sendRaw(app, ['Idempotency-Key: "a b"'])).toMatch(/^HTTP\/1.1 201 /)
  const again = await sendRaw(app, ['iDEMPOTENCY-kEY:\t a b \t'])
  expect(again).toMatch(/^HTTP\/1.1 201 /)
  expect(again).toMatch(/^idempotency-replayed: true\r$/im)
  expect(await keyRows(database)).toMatchObject([{ key: 'a b' }])
})
