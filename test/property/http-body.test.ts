import type { JsonValue } from '@pawl/core'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { lasting, type Received } from '../support/http-client.js'
import { amountOf } from '../support/amounts.js'
import { assertProperty } from './support/assert-property.js'
import { canonicalForm } from './support/canonical-form.js'
import { changeJson } from './support/change-json.js'
import { echoApp } from './support/echo-app.js'
import { choices, chooser, jsonValue } from './support/json.js'
import { spellJson } from './support/spell-json.js'
import { character } from './support/text.js'

const RUNS = amountOf('runs')

/** Each case is several requests, each on its own socket, and several transactions. */
const BODY_RUNS = Math.ceil(RUNS / 4)

const JSON_TYPE = 'application/json'
const BYTES_TYPE = 'application/octet-stream'

/** What Fastify refuses before anybody else sees it: members that would reach a prototype if the object were copied. */
function isPoisoned(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Object.hasOwn(value, '__proto__')) return true
  const { constructor } = value as { readonly constructor?: unknown }
  const own = Object.hasOwn(value, 'constructor') && typeof constructor === 'object' && constructor !== null
  if (own && Object.hasOwn(constructor, 'prototype')) return true
  return Object.values(value).some(isPoisoned)
}

const codeOf = ({ body }: Received) => (JSON.parse(body.toString()) as { readonly code?: unknown }).code
const isReplay = ({ headers }: Received) => headers['idempotency-replayed'] === 'true'

function expectReplayOf(first: Received, again: Received): void {
  expect(isReplay(again)).toBe(true)
  expect(lasting(again)).toEqual(lasting(first))
}

function expectMismatch(answer: Received): void {
  expect([answer.status, codeOf(answer)]).toEqual([422, 'idempotency_key_reused'])
}

test('any JSON body runs once: a retry is replayed, however it is written, and another body is refused', async () => {
  const { ask, freshKey, log, runs } = await echoApp()
  await assertProperty(
    fc.asyncProperty(jsonValue, jsonValue, choices, async (value, unrelated, given) => {
      const choose = chooser(given)
      const key = freshKey()
      const before = runs()
      const post = (body: JsonValue) => ask({ key, type: JSON_TYPE, body: spellJson(body, choose) })

      const first = await post(value)
      if (isPoisoned(value)) {
        expect(first.status).toBe(400)
        return
      }
      expect(first.status).toBe(201)
      expect(canonicalForm(JSON.parse(first.body.toString()))).toBe(canonicalForm(value))
      expectReplayOf(first, await post(value))

      for (const other of [changeJson(value, choose), unrelated]) {
        const answer = await post(other)
        if (isPoisoned(other)) expect(answer.status).toBe(400)
        else if (canonicalForm(other) === canonicalForm(value)) expectReplayOf(first, answer)
        else expectMismatch(answer)
      }
      expect(runs() - before).toBe(1)
    }),
    BODY_RUNS,
  )
  expect(log.filter(({ level }) => Number(level) >= 50)).toEqual([])
})

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.uint8Array({ maxLength: 2 }),
  fc.string({ unit: character, maxLength: 10 }).map((text) => Uint8Array.from(Buffer.from(text))),
)

test('any bytes run once: a retry is replayed, and other bytes are refused', async () => {
  const { ask, freshKey, log, runs } = await echoApp()
  await assertProperty(
    fc.asyncProperty(bytes, bytes, async (one, other) => {
      const key = freshKey()
      const before = runs()
      const first = await ask({ key, type: BYTES_TYPE, body: one })
      expect(first.status).toBe(201)
      expect(JSON.parse(first.body.toString())).toEqual({ base64: Buffer.from(one).toString('base64') })
      expectReplayOf(first, await ask({ key, type: BYTES_TYPE, body: one }))
      const answer = await ask({ key, type: BYTES_TYPE, body: other })
      if (Buffer.compare(one, other) === 0) expectReplayOf(first, answer)
      else expectMismatch(answer)
      expect(runs() - before).toBe(1)
    }),
    BODY_RUNS,
  )
  expect(log.filter(({ level }) => Number(level) >= 50)).toEqual([])
})

/** Valid JSON with a few bytes inserted: mostly broken, and sometimes merely odd. */
const damaged = fc.tuple(jsonValue, fc.uint8Array({ maxLength: 3 }), fc.nat()).map(([value, put, at]) => {
  const whole = Buffer.from(JSON.stringify(value))
  const cut = at % (whole.length + 1)
  return Uint8Array.from([...whole.subarray(0, cut), ...put, ...whole.subarray(cut)])
})

/** Endless brackets and endless numbers: JSON that cannot be stored. */
const extreme = fc
  .tuple(
    fc.constantFrom('[', '{"a":'),
    fc.constantFrom(1, 255, 256, 257, 5_000, 50_000),
    fc.constantFrom('1', '-1e999', '1e-999'),
  )
  .map(([open, times, inside]) => {
    const close = open === '[' ? ']' : '}'
    return Uint8Array.from(Buffer.from(`${open.repeat(times)}${inside}${close.repeat(times)}`))
  })

const types = fc.constantFrom(
  JSON_TYPE,
  JSON_TYPE,
  'application/json; charset=utf-8',
  'text/plain',
  BYTES_TYPE,
  'application/x-www-form-urlencoded',
  'no type',
)

test('any body of any type is run, replayed, or refused as the client’s mistake, and never a 5xx', async () => {
  const { ask, freshKey, log, runs } = await echoApp()
  await assertProperty(
    fc.asyncProperty(fc.oneof(bytes, damaged, damaged, extreme), types, async (body, type) => {
      const key = freshKey()
      const before = runs()
      const first = await ask({ key, type, body })
      const again = await ask({ key, type, body })
      expect([201, 400, 413, 415]).toContain(first.status)
      if (first.status === 201) expectReplayOf(first, again)
      else expect(lasting(again)).toEqual(lasting(first))
      expect(runs() - before).toBe(first.status === 201 ? 1 : 0)
    }),
    BODY_RUNS,
  )
  expect(log.filter(({ level }) => Number(level) >= 50)).toEqual([])
})
