import { respond } from '@pawl/core'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { completerOf, engineOf, NO_COUNTS, unattendedRide } from '../support/completer-trial.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, pipeline, type RideInput } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
// Every test sees the whole table, since a completer takes what it finds.
beforeEach(() => database.rows('DELETE FROM pawl.idempotency_keys'))

const unattended = () => unattendedRide(database)

const other = (version: number, phase: 'ride_created' | 'renamed') => () =>
  pipeline<RideInput>({ name: 'create-ride', version })
    .local(phase, () => {})
    .finish(() => respond(200))

describe('keys of definitions that the completer does not know', () => {
  test.each([
    ['of another version', other(2, 'ride_created')],
    ['of another definition of the same version', other(1, 'renamed')],
  ])('%s are not even selected', async (_name, pipelineOf) => {
    const trial = await unattended()
    await database.expireLeases()
    const stranger = new RideTrial(database, pipelineOf)
    const refusals = hear('pawl:refused')
    expect(await completerOf(engineOf(stranger)).runOnce()).toEqual(NO_COUNTS)
    expect(refusals).toEqual([])
    expect(await trial.row()).toMatchObject({ status: 'running', fence: '1' })
  })

  test('of a third version are not selected along with those that an upgrade can go on from', async () => {
    const trial = await unattended()
    await database.expireLeases()
    await database.rows('UPDATE pawl.idempotency_keys SET version = 3')
    const newer = pipeline<RideInput>({ name: 'create-ride', version: 2, upgradesFrom: [{ version: 1 }] })
    const stranger = new RideTrial(database, () => newer.finish(() => respond(200)))
    expect(await completerOf(engineOf(stranger)).runOnce()).toEqual(NO_COUNTS)
    expect(await trial.row()).toMatchObject({ status: 'running', fence: '1' })
  })

  test('of a version that a newer one upgrades from are selected', async () => {
    const trial = await unattended()
    await database.expireLeases()
    const newer = new RideTrial(database, () =>
      pipeline<RideInput>({ name: 'create-ride', version: 2, upgradesFrom: [{ version: 1 }] })
        .local('ride_created', () => {})
        .finish(() => respond(200)),
    )
    expect(await completerOf(engineOf(newer)).runOnce()).toMatchObject({ completed: 1 })
    expect(await trial.row()).toMatchObject({ status: 'finished' })
  })
})

// Shows L1.
test('keys that the completer can never run do not starve the others', async () => {
  // This does not say where their recovery point is now.
  const blocked = pipeline<RideInput>({
    name: 'create-ride',
    version: 2,
    upgradesFrom: [{ version: 1 }],
  }).finish(() => respond(200))
  for (let n = 0; n < 3; n++) await unattended()
  await database.expireLeases()
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [blocked] })
  await engine.enqueue(blocked, { scope: 's', key: 'later', input: { amount: 1 } })
  const completer = completerOf(engine, { batchSize: 1 })
  expect(await completer.runOnce()).toEqual({ ...NO_COUNTS, found: 1, passed: 1 })
  let rounds = 0
  while ((await completer.runOnce()).completed === 0) expect(++rounds).toBeLessThan(1_000)
})

test('keys that it can never run do not starve others of the same version, even if there are more than it remembers', async () => {
  const BLOCKED = 1_500
  // Of version 1, keys at 'started' can be run, and keys at 'gone' cannot.
  const newer = pipeline<RideInput>({
    name: 'some-ride',
    version: 2,
    upgradesFrom: [{ version: 1 }],
  }).finish(() => respond(200))
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
                                        input, holder, recovery_point, created_at)
     SELECT 's', n::text, 'some-ride', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid(),
            CASE WHEN n <= $1 THEN 'gone' ELSE 'started' END, clock_timestamp() - interval '1 hour' + n * interval '1 ms'
       FROM generate_series(1, $1 + 1) AS n`,
    [BLOCKED],
  )
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [newer] })
  const completer = completerOf(engine, { batchSize: 100, concurrency: 8 })
  let rounds = 1
  while ((await completer.runOnce()).completed === 0) expect(++rounds).toBeLessThanOrEqual(16)
  // While all of them are put off, a client that comes back costs two short rounds at most.
  await engine.enqueue(newer, { scope: 's', key: 'later', input: { amount: 1 } })
  expect(await completer.runOnce()).toMatchObject({ completed: 1 })
})
