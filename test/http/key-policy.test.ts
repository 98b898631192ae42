import type { KeyPolicyOptions } from '@pawl/core'
import { expect, test } from 'vitest'
import { audit, keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { createEngine } from '../support/rides.js'

const CARD = '4111-1111-1111-1111'
const keyed = (key: string) => ({ headers: { 'idempotency-key': key } })
const engineWith =
  (keyPolicy: KeyPolicyOptions): typeof createEngine =>
  (options) =>
    createEngine({ ...options, keyPolicy })

test.each(['account', 'route'] as const)(
  'a card number as a key is refused before anything is reserved, and said nowhere (%s)',
  async (keyScope) => {
    const { app, database, log } = await rideApp({ plugin: { keyScope } })
    const answer = await send(app, keyed(CARD))
    expect(answer.statusCode).toBe(400)
    expect(answer.json()).toMatchObject({ code: 'idempotency_key_unsuitable' })
    expect(answer.body + JSON.stringify([answer.headers, log])).not.toMatch(/4111/)
    expect(await keyRows(database)).toEqual([])
    expect(await audit(database)).toEqual([])
  },
)

test('a key that is stored as a hash is judged as the client sent it', async () => {
  const { app, database } = await rideApp({ plugin: { keyScope: 'route' } })
  const answer = await send(app, keyed(`${'k'.repeat(230)} ${CARD}`))
  expect(answer.json()).toMatchObject({ code: 'idempotency_key_unsuitable' })
  expect(await keyRows(database)).toEqual([])
})

test.each(['account', 'route'] as const)(
  'the least length is that of the key as it was sent (%s)',
  async (keyScope) => {
    const engineOf = engineWith({ minLength: 36 })
    const { app } = await rideApp({ plugin: { keyScope }, engineOf })
    const short = await send(app, keyed('k'.repeat(35)))
    expect(short.json()).toMatchObject({ code: 'idempotency_key_unsuitable' })
    expect((await send(app, keyed('k'.repeat(36)))).statusCode).toBe(201)
  },
)

test('a key that the server makes passes the strictest policy', async () => {
  const refuse = { cardNumber: 'refuse', email: 'refuse', phoneNumber: 'refuse' } as const
  const engineOf = engineWith({ minLength: 36, ...refuse })
  const { app } = await rideApp({ engineOf, route: { required: false } })
  expect((await sendWithoutKey(app)).statusCode).toBe(201)
})

test('a key with an e-mail address is stored, unless the policy says otherwise', async () => {
  const { app } = await rideApp()
  expect((await send(app, keyed('order-ann@example.com'))).statusCode).toBe(201)
  const strict = await rideApp({ engineOf: engineWith({ email: 'refuse' }) })
  expect((await send(strict.app, keyed('order-ann@example.com'))).statusCode).toBe(400)
})
