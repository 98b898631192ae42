import { createOperator, respond } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { pawlOn } from './pawl.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const never = { when: () => false }

/** Paid and shipped, not refunded, and then the mail cannot be sent. */
const fulfil = pipeline<null>({ name: 'fulfil', version: 1, maxAttempts: 1 })
  .local('shipment_booked', () => undefined)
  .local('refunded', () => undefined, never)
  .local('apologised', () => undefined, never)
  .local('mailed', () => {
    throw new Error('mailbox is full')
  })
  .finish(() => respond(200))

const skipAll = pipeline<null>({ name: 'skip-all', version: 1, maxAttempts: 1 })
  .local('greeted', () => undefined, never)
  .local('mailed', () => {
    throw new Error('mailbox is full')
  })
  .finish(() => respond(200))

test('a skipped phase is not shown as done', async () => {
  const pool = database.pool()
  const engine = createEngine({ pool, schema: database.schema, pipelines: [fulfil, skipAll] })
  await engine.execute(fulfil, { scope: 's', key: 'k', input: null })
  await engine.execute(skipAll, { scope: 's', key: 'none', input: null })
  await engine.close()

  const shown = 'shipment_booked (refunded, apologised skipped)'
  const { out } = await pawlOn(database, 'show', 's', 'k')
  expect(out).toContain(`Recovery point  ${shown}\n`)
  expect((await pawlOn(database, 'show', 's', 'none')).out).toContain('started (greeted skipped)')
  for (const command of ['list', 'status', 'drain']) {
    const said = await pawlOn(database, command, ...(command === 'drain' ? ['fulfil@1'] : []))
    expect(said.out, command).toContain(`  ${shown}  `)
    expect(said.out, command).not.toMatch(/ (?:refunded|apologised) {2}/)
  }
  expect((await pawlOn(database, 'status')).out).toContain('  started (greeted skipped)  ')

  const rows = await database.rows(`SELECT key, recovery_point, point FROM pawl.keys ORDER BY key`)
  expect(rows).toEqual([
    { key: 'k', recovery_point: 'apologised', point: shown },
    { key: 'none', recovery_point: 'greeted', point: 'started (greeted skipped)' },
  ])
  // What programs compare stays the same.
  const [view] = await createOperator({ pool, schema: database.schema }).list({ recoveryPoint: 'apologised' })
  expect(view).toMatchObject({ recoveryPoint: 'apologised', point: shown })
})

test('a phase that ran after a skipped one, and a key that has finished, are shown as they are', async () => {
  const target = pipeline<null>({ name: 'target', version: 1, maxAttempts: 1 })
    .local('refunded', () => undefined, never)
    .local('booked', () => undefined)
    .local('mailed', ({ scope }) => {
      if (scope === 'stuck') throw new Error('mailbox is full')
    })
    .local('thanked', () => undefined, never)
    .finish(() => respond(200))
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [target] })
  for (const scope of ['stuck', 'well']) await engine.execute(target, { scope, key: 'k', input: null })
  await engine.close()
  const rows = await database.rows(`SELECT scope, point FROM pawl.keys ORDER BY scope`)
  expect(rows).toEqual([
    { scope: 'stuck', point: 'booked' },
    { scope: 'well', point: 'finished' },
  ])
  for (const [scope, point] of [
    ['stuck', 'booked'],
    ['well', 'finished'],
  ] as const)
    expect((await pawlOn(database, 'show', scope, 'k')).out).toContain(`Recovery point  ${point}\n`)
})
