import { randomUUID } from 'node:crypto'
import { createHash } from 'node:crypto'
import type { EngineOptions, Outcome } from '@pawl/core'
import { inspectOwn, OriginFingerprint } from '@pawl/core/internal'
import type { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import {
  createEngine,
  protect,
  protectBoth,
  protectNext,
  protectOther,
  secretRide,
  type Way,
} from './secret-ride.js'

let database: TestDatabase
/** Of all engines: with one each, the server would run out of connections. */
let pool: Pool
beforeAll(async () => {
  database = await TestDatabase.create()
  pool = database.pool()
})
afterAll(() => database.drop())

type Given = Pick<EngineOptions<object>, 'protect' | 'hashSecret'>

const hashSecret = 'a secret of thirty-two characters'

function engineWith(given: Given) {
  const engine = createEngine({
    pool,
    schema: database.schema,
    pipelines: [secretRide],
    ...given,
  })
  onTestFinished(() => engine.close())
  return engine
}

interface Asked {
  readonly key: string
  readonly way?: Way
  readonly secret?: string
  readonly bindTo?: string
  readonly origin?: string
  readonly scope?: string
}

const send = (
  given: Given,
  { key, way = 'finishes', secret = 'x', bindTo, origin, scope = 's' }: Asked,
): Promise<Outcome> =>
  engineWith(given).execute(secretRide, {
    scope,
    key,
    input: { way, secret },
    ...(origin !== undefined && { fingerprint: new OriginFingerprint(origin, { way, secret }) as never }),
    ...(bindTo !== undefined && { bindTo }),
  })

async function fingerprintOf(key: string): Promise<Buffer> {
  const [row] = await database.rows<{ fingerprint: Buffer }>(
    'SELECT fingerprint FROM pawl.idempotency_keys WHERE key = $1',
    [key],
  )
  return row?.fingerprint ?? Buffer.alloc(0)
}

const mismatch = { type: 'mismatch', differs: 'request' }

test('a keyed fingerprint cannot be found out by trying', async () => {
  const [plain, one] = [randomUUID(), randomUUID()]
  await send({}, { key: plain })
  await send({ protect }, { key: one })
  const expected = createHash('sha256').update('json:{"secret":"x","way":"finishes"}').digest()
  expect(await fingerprintOf(plain)).toEqual(expected)
  const keyed = await fingerprintOf(one)
  for (let start = 0; start < expected.length; start += 8)
    expect(keyed.includes(expected.subarray(start, start + 8))).toBe(false)
  expect(await send({ protect }, { key: one, secret: 'y' })).toEqual(mismatch)
})

test('nor by sending requests: the same one under another key, or of another scope, has another fingerprint', async () => {
  const [one, other] = [randomUUID(), randomUUID()]
  const origin = 'POST /rides'
  await send({ protect }, { key: one, origin })
  await send({ protect }, { key: other, origin })
  await send({ protect }, { key: other, origin, scope: 't' })
  const rows = await database.rows<{ fingerprint: Buffer }>(
    'SELECT fingerprint FROM pawl.idempotency_keys WHERE key = ANY ($1)',
    [[one, other]],
  )
  for (const [start, end] of [
    [0, 8],
    [8, 32],
  ] as const)
    expect(
      new Set(rows.map(({ fingerprint }) => fingerprint.subarray(start, end).toString('hex'))).size,
    ).toBe(3)
})

test('nor can the address be found out that the request was sent to', async () => {
  const [plain, keyed] = [randomUUID(), randomUUID()]
  const origin = 'POST /accounts/DE02120300000000202051/payouts'
  await send({}, { key: plain, origin })
  await send({ protect: protectBoth }, { key: keyed, origin })
  const expected = createHash('sha256').update(`origin:${origin}`).digest().subarray(0, 8)
  expect((await fingerprintOf(plain)).subarray(0, 8)).toEqual(expected)
  expect((await fingerprintOf(keyed)).includes(expected)).toBe(false)
  expect(await send({ protect: protectNext }, { key: keyed, origin })).toMatchObject({ type: 'replayed' })
  expect(await send({ protect }, { key: keyed, origin: `${origin}/x` })).toEqual(mismatch)
  const engine = engineWith({ protect: protectNext })
  for (const key of [plain, keyed]) {
    const { keyId = '' } = (await engine.inspect('s', key)) ?? {}
    expect(await inspectOwn(engine, { keyId, scope: 's', origin })).toMatchObject({ key })
    expect(await inspectOwn(engine, { keyId, scope: 's', origin: `${origin}/x` })).toBeNull()
    expect(await inspectOwn(engine, { keyId, scope: 't', origin })).toBeNull()
  }
})

test('another key makes another fingerprint, and compares with that of the row', async () => {
  const [one, other] = [randomUUID(), randomUUID()]
  await send({ protect: protectBoth }, { key: one })
  await send({ protect: protectNext }, { key: other })
  expect((await fingerprintOf(one)).subarray(0, 32)).not.toEqual((await fingerprintOf(other)).subarray(0, 32))
  for (const [key, by] of [
    [one, protectNext],
    [other, protectBoth],
  ] as const) {
    expect(await send({ protect: by }, { key })).toMatchObject({ type: 'replayed' })
    expect(await send({ protect: by }, { key, secret: 'y' })).toEqual(mismatch)
  }
  expect(await send({ protect: protectOther }, { key: one })).toMatchObject({
    type: 'refused',
    detail: expect.stringContaining("made with key 'k1'") as string,
  })
})

describe.each([
  ['with a hashSecret', { hashSecret }],
  ['with protect', { protect }],
  ['with both', { hashSecret, protect }],
])('bindTo, %s', (_, given) => {
  test.each(['finishes', 'settle_fails', 'fails', 'unknown'] as const)(
    'another binding is what another request is, where the first one %s',
    async (way) => {
      const key = randomUUID()
      await send(given, { key, way, bindTo: 'session 1' })
      const [before] = await database.rows('SELECT * FROM pawl.idempotency_keys WHERE key = $1', [key])
      expect(JSON.stringify(before)).not.toContain('session 1')
      const another = await send(given, { key, way, secret: 'another', bindTo: 'session 1' })
      expect(another).toEqual(mismatch)
      for (const bindTo of ['session 2', 'session 1 ', undefined])
        expect(await send(given, { key, way, ...(bindTo !== undefined && { bindTo }) })).toEqual(another)
      expect(await database.rows('SELECT * FROM pawl.idempotency_keys WHERE key = $1', [key])).toEqual([
        before,
      ])
      expect(await send(given, { key, way, bindTo: 'session 1' })).not.toMatchObject({ type: 'mismatch' })
    },
  )

  test('a key that was not bound cannot be asked for with a binding', async () => {
    const key = randomUUID()
    await send(given, { key })
    expect(await send(given, { key, bindTo: 'session 1' })).toEqual(mismatch)
  })

  test('the binding of one key says nothing about that of another', async () => {
    const [one, other] = [randomUUID(), randomUUID()]
    await send(given, { key: one, bindTo: 'session 1' })
    await send(given, { key: other, bindTo: 'session 1' })
    const bindings = [await fingerprintOf(one), await fingerprintOf(other)].map((bytes) =>
      bytes.subarray(32, 48),
    )
    expect(bindings[0]).toHaveLength(16)
    expect(bindings[0]).not.toEqual(bindings[1])
  })

  test('the status is shown to whom the key is bound, and to nobody else', async () => {
    const key = randomUUID()
    await send(given, { key, bindTo: 'session 1', origin: 'POST /rides' })
    const engine = engineWith(given)
    const { keyId = '' } = (await engine.inspect('s', key)) ?? {}
    const own = { keyId, scope: 's', origin: 'POST /rides' }
    expect(await inspectOwn(engine, { ...own, bindTo: 'session 1' })).toMatchObject({ key })
    expect(await inspectOwn(engine, { ...own, bindTo: 'session 2' })).toBeNull()
    expect(await inspectOwn(engine, own)).toBeNull()
    expect(await inspectOwn(engine, { ...own, origin: 'POST /others', bindTo: 'session 1' })).toBeNull()
  })
})

test('the status of a response that does not open is not told as if there were none yet', async () => {
  const key = randomUUID()
  await send({ protect }, { key, origin: 'POST /rides' })
  await database.rows(
    `UPDATE pawl.idempotency_keys SET response_body = substr(response_body, 2) WHERE key = $1`,
    [key],
  )
  const engine = engineWith({ protect })
  const { keyId = '' } = (await engine.inspect('s', key)) ?? {}
  await expect(inspectOwn(engine, { keyId, scope: 's', origin: 'POST /rides' })).rejects.toMatchObject({
    code: 'PAWL_SEALED',
  })
})

test('bound keys from before protection was switched on are still told apart', async () => {
  const key = randomUUID()
  await send({ hashSecret }, { key, bindTo: 'session 1' })
  const both = { hashSecret, protect }
  expect(await send(both, { key, bindTo: 'session 1' })).toMatchObject({ type: 'replayed' })
  expect(await send(both, { key, bindTo: 'session 2' })).toEqual(mismatch)
  expect(await send({ protect }, { key, bindTo: 'session 1' })).toMatchObject({ type: 'refused' })
  expect(await send({ protect }, { key })).toEqual(mismatch)
})

test.each([
  ['no secret', {}, 'x', 'bindTo needs a secret'],
  ['nothing', { protect }, '', 'bindTo is a string of 0 characters'],
  ['too much', { protect }, 'x'.repeat(32_769), 'bindTo is a string of 32769 characters'],
  ['no text', { protect }, 7 as never, 'bindTo is of type number'],
])('bindTo is refused with %s', async (_, given, bindTo, message) => {
  await expect(send(given, { key: randomUUID(), bindTo })).rejects.toThrow(message)
})
