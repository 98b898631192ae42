import { afterAll, expect, test } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import { tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

// A holder A whose lease ran out, and a B that has read the row as unattended but not yet taken it over. A wakes first.
const A_IN_FIRST_PHASE = 'ride_created/advance_key#1:before'
const B_HAS_READ = 'reserve/find_key#1:after'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const oracle = await tracesWithoutCrash(new RideTrial(database), database.pool())

test('a request that read the row before its holder finished replays what the holder stored', async () => {
  const trial = new RideTrial(database)
  const a = engineThatFreezesAt(trial.options(), A_IN_FIRST_PHASE)
  const b = engineThatFreezesAt(trial.options(), B_HAS_READ)
  const first = trial.execute(a.engine)
  await a.frozen
  await database.expireLeases()
  const second = trial.execute(b.engine)
  await b.frozen
  a.wake()
  const finished = await first
  if (finished.type !== 'completed') throw finished
  b.wake()
  expect(await second).toEqual({ ...finished, type: 'replayed' })
  expect((await trial.row())?.fence).toBe('1')
  expect(await trial.traces(finished.response)).toEqual(oracle)
  await Promise.all([a.engine.close(), b.engine.close()])
})

test('a request that read the row before its holder advanced is told that it is in flight, while the holder still has it', async () => {
  const trial = new RideTrial(database)
  await trial.provider.willMeet('hold_then_execute')
  const a = engineThatFreezesAt(trial.options(), A_IN_FIRST_PHASE)
  const b = engineThatFreezesAt(trial.options(), B_HAS_READ)
  const first = trial.execute(a.engine)
  await a.frozen
  await database.expireLeases()
  const second = trial.execute(b.engine)
  await b.frozen
  a.wake()
  await trial.provider.arrived()
  b.wake()
  expect(await second).toMatchObject({ type: 'in_flight', fencedOff: false })
  await trial.provider.letGo()
  const finished = await first
  if (finished.type !== 'completed') throw finished
  expect(await trial.traces(finished.response)).toEqual(oracle)
  await Promise.all([a.engine.close(), b.engine.close()])
})

// Shows I6.
test('a request that read the row before its holder advanced and gave it back goes on from the new recovery point', async () => {
  const trial = new RideTrial(database)
  await trial.provider.willMeet('refuse_500')
  const a = engineThatFreezesAt(trial.options(), A_IN_FIRST_PHASE)
  const b = engineThatFreezesAt(trial.options(), B_HAS_READ)
  const first = trial.execute(a.engine)
  await a.frozen
  await database.expireLeases()
  const second = trial.execute(b.engine)
  await b.frozen
  a.wake()
  expect(await first).toMatchObject({ type: 'retry_later', recoveryPoint: 'ride_created' })
  b.wake()
  const finished = await second
  if (finished.type !== 'completed') throw finished
  expect(await trial.traces(finished.response)).toEqual(oracle)
  await Promise.all([a.engine.close(), b.engine.close()])
})

test('a request that read the row before its holder declared a call does not forget the call', async () => {
  const trial = new RideTrial(database, atMostOnceRideOf)
  const a = engineWithStops(
    trial.options(),
    'charge_created/declare_call#1:before',
    'charge_created/call#1:after',
  )
  const [beforeDeclaring, afterCall] = a.stops
  const b = engineThatFreezesAt(trial.options(), B_HAS_READ)
  const first = trial.execute(a.engine)
  await beforeDeclaring.reached
  await database.expireLeases()
  const second = trial.execute(b.engine)
  await b.frozen
  beforeDeclaring.go()
  await afterCall.reached
  await database.expireLeases()
  b.wake()
  expect(await second).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  afterCall.go()
  expect(await first).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  expect(await trial.provider.requests()).toHaveLength(1)
  await Promise.all([a.engine.close(), b.engine.close()])
})
