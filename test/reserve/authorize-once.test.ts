import { randomUUID } from 'node:crypto'
import { type Engine, respond } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let engine: Engine<Database>
let request: { readonly scope: string; readonly key: string; readonly input: null }
let allow: () => unknown
let charges: Set<string>
let answered: boolean

/** Charges first, under a provider key that is written down nowhere else. */
const pay = pipeline<null>({ name: 'pay', version: 1, authorize: () => allow() as undefined })
  .foreign('paid', {
    call: ({ idempotencyKey }) => {
      charges.add(idempotencyKey)
      if (!answered) throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
      return { id: 'ch_1' }
    },
  })
  .finish(() => respond(201))

beforeEach(async () => {
  database = await TestDatabase.create()
  engine = createEngine({ pool: database.pool(), pipelines: [pay], schema: database.schema })
  request = { scope: 'rider', key: randomUUID(), input: null }
  allow = () => undefined
  charges = new Set()
  answered = false
})
afterEach(async () => {
  await engine.close()
  await database.drop()
})

async function resume() {
  const [row] = await database.rows('SELECT id FROM pawl.idempotency_keys')
  return engine.resume(row?.['id'] as string)
}

test.each(['enqueue', 'execute'] as const)(
  'a request whose first call may have been made can no longer be refused: %s',
  async (how) => {
    const first = await engine[how](pay, request)
    if (how === 'enqueue') await resume()
    expect(first.type).toBe(how === 'enqueue' ? 'enqueued' : 'retry_later')
    expect(charges.size).toBe(1)

    allow = () => respond(403)
    answered = true
    expect(await resume()).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(charges.size).toBe(1)
    expect(await database.rows('SELECT phase FROM pawl.effects')).toEqual([{ phase: 'paid' }])
  },
)

test('a request whose authorization threw is authorized again before anything is called', async () => {
  await engine.enqueue(pay, request)
  allow = () => {
    throw new Error('no such account table')
  }
  expect(await resume()).toMatchObject({ type: 'retry_later' })
  allow = () => respond(403)
  expect(await resume()).toMatchObject({ type: 'completed', response: { status: 403 } })
  expect(charges.size).toBe(0)
})
