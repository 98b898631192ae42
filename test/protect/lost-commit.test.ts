import { randomUUID } from 'node:crypto'
import { PawlError, type Protection, respond } from '@pawl/core'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { createEngine, pipeline, protect } from './secret-ride.js'

let database: TestDatabase
let proxy: PostgresProxy
beforeEach(async () => {
  database = await TestDatabase.create()
  proxy = await PostgresProxy.start(database.url)
})
afterEach(async () => {
  await database.drop()
  await proxy.close()
})

/** Keys that can be taken away, as a device can be unplugged. */
function removable() {
  let isThere = true
  const codec: Protection = {
    seal: (plain, at) => protect.seal(plain, at),
    open: (sealed, at) => {
      if (isThere) return protect.open(sealed, at)
      throw new PawlError('PAWL_KEY_MISSING', 'The device is away.')
    },
    fingerprintSecret: (keyId) => protect.fingerprintSecret(keyId),
  }
  return { codec, take: () => (isThere = false), giveBack: () => (isThere = true) }
}

// Shows I18.
test('a holder whose COMMIT was lost, and who cannot read its row any more, goes on with nothing in place of what it had', async () => {
  const { codec, take, giveBack } = removable()
  const charged: unknown[] = []
  const target = pipeline<{ amount: number }>({ name: 'charge', version: 1 })
    .local('noted', ({ input }) => {
      take()
      return { amount: input.amount }
    })
    .foreign('charged', {
      call: ({ state }) => {
        charged.push(state.amount)
        return null
      },
      settle: () => ({}),
    })
    .finish(() => respond(201))
  const pool = database.pool({ connectionString: proxy.url, connectionTimeoutMillis: 1_000 })
  const engine = createEngine({ pool, schema: database.schema, pipelines: [target], protect: codec })
  onTestFinished(() => engine.close())
  const warnings = hear('pawl:warning')
  const request = { scope: 's', key: randomUUID(), input: { amount: 7 } }
  const struck = proxy.armCommit('answer_lost')
  expect(await engine.execute(target, request)).toMatchObject({ type: 'in_flight' })
  await struck
  expect(charged).toEqual([])
  expect(warnings.map(({ message }) => message)).toContain('a key of ours cannot be read any more')
  giveBack()
  await database.expireLeases()
  await database.rows('UPDATE pawl.idempotency_keys SET run_after = NULL')
  expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
  expect(charged).toEqual([7])
})
