import { type Pipeline, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { unreadableErrors } from '../support/unreadable-errors.js'

let database: TestDatabase

beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const named = (name: string) => pipeline<null>({ name, version: 1 })
const finish = () => respond(200)

/** A pipeline for every place where an error is thrown, or from which it is passed on. */
const throwers: Readonly<Record<string, (fail: () => never, thrown: unknown) => Pipeline<Database, null>>> = {
  'a local phase': (fail) => named('p').local('a', fail).finish(finish),
  'a call': (fail) => named('p').foreign('a', { call: fail }).finish(finish),
  'a call whose onError asks for a retry': (fail) =>
    named('p')
      .foreign('a', { call: fail, onError: ({ error }) => retryLater(error) })
      .finish(finish),
  'a call whose onError answers it': (fail) =>
    named('p')
      .foreign('a', { call: fail, onError: () => respond(402) })
      .finish(finish),
  'an onError': (fail) =>
    named('p')
      .foreign('a', {
        call: () => {
          throw new Error('declined')
        },
        onError: fail,
      })
      .finish(finish),
  'a settle': (fail) =>
    named('p')
      .foreign('a', { call: () => null, settle: fail })
      .finish(finish),
  'a when': (fail) =>
    named('p')
      .local('a', () => {}, { when: fail })
      .finish(finish),
  'a phase that asks for a retry': (_, thrown) =>
    named('p')
      .local('a', () => retryLater(thrown))
      .finish(finish),
}

test.each(Object.entries(throwers))(
  'whatever %s throws, its key is given back and the request may be retried',
  async (_, of) => {
    let thrown: unknown
    const fail = (): never => {
      throw thrown
    }
    const failed: string[] = []
    const pool = database.pool()
    for (const [what, error] of Object.entries(unreadableErrors())) {
      thrown = error
      const target = of(fail, error)
      const engine = createEngine({ pool, pipelines: [target], schema: database.schema })
      try {
        const { type } = await engine.execute(target, { scope: 's', key: what, input: null })
        if (type !== 'retry_later') failed.push(`${what}: ${type}`)
      } catch {
        failed.push(`${what}: threw`)
      } finally {
        await engine.close()
      }
    }
    expect(failed).toEqual([])
    expect(
      await database.rows(
        'SELECT key FROM pawl.idempotency_keys WHERE lease_until IS NOT NULL OR last_error IS NULL',
      ),
    ).toEqual([])
  },
)

test.each([
  ['it throws', (fail: () => never) => ({ call: fail })],
  [
    'its onError throws',
    (fail: () => never) => ({
      call: () => {
        throw new Error('declined')
      },
      onError: fail,
    }),
  ],
])('a call that must not be repeated is stuck for a person, whatever %s', async (_, of) => {
  let thrown: unknown
  const fail = (): never => {
    throw thrown
  }
  const target = named('p')
    .foreign('a', { guarantee: 'at_most_once', ...of(fail) })
    .finish(finish)
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  const outcomes: string[] = []
  for (const [what, error] of Object.entries(unreadableErrors())) {
    thrown = error
    const { type } = await engine.execute(target, { scope: 's', key: what, input: null })
    outcomes.push(type)
  }
  await engine.close()
  expect(new Set(outcomes)).toEqual(new Set(['stuck']))
})
