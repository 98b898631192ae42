import { absent, found, type Guarantee, type Pipeline, respond, createOperator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import type { Provider } from '../support/provider.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

const rideWith =
  (guarantee: Exclude<Guarantee, 'keyed'>) =>
  (provider: Provider): Pipeline<Database, RideInput> =>
    pipeline<RideInput>({ name: 'charges-once', version: 1 })
      .local('ride_created', async ({ tx, input, scope, keyId }) => {
        await tx.insertInto('rides').values({ rider: scope, amount: input.amount, key_id: keyId }).execute()
      })
      .foreign('charge_created', {
        call: ({ input, idempotencyKey, signal }) =>
          provider.charge(input.amount, guarantee === 'queryable' ? { idempotencyKey, signal } : { signal }),
        settle: ({ result }) => ({ chargeId: result.id }),
        ...(guarantee === 'at_most_once'
          ? { guarantee }
          : {
              guarantee,
              reconcile: async ({ idempotencyKey }: { readonly idempotencyKey: string }) => {
                const charge = await provider.find(idempotencyKey)
                return charge === null ? absent() : found(charge)
              },
            }),
      })
      .local('noted', () => ({ noted: true }))
      .finish(({ state }) => respond(201, state))

/** What a replica knows that was promoted before the first phase reached it: the grant, and nothing after it. */
const LOST = `recovery_point = 'started', state = '{}', trail = '[]', intent = NULL`
const lose = async (what = LOST): Promise<void> => {
  await database.rows(`UPDATE pawl.idempotency_keys SET ${what}`)
  await database.rows('DELETE FROM rides')
}

describe.each(['at_most_once', 'queryable'] as const)('%s', (guarantee) => {
  const newTrial = () => new RideTrial(database, rideWith(guarantee))

  test('a holder whose key went back declares no call there, and the retry makes it once', async () => {
    const trial = newTrial()
    const { engine, stops } = engineWithStops(trial.options(), 'charge_created/declare_call#1:before')
    const running = trial.execute(engine)
    await stops[0].reached
    await lose()
    stops[0].go()
    expect(await running).toMatchObject({ type: 'in_flight', fencedOff: true })
    expect(await trial.provider.requests()).toEqual([])
    expect(await trial.row()).toMatchObject({ recovery_point: 'started', intent: null })

    await database.expireLeases()
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
    expect(await trial.provider.requests()).toHaveLength(1)
    await engine.close()
  })

  test('a call that was made before its declaration was lost is not made again, as long as its holder lives', async () => {
    const trial = newTrial()
    const { engine, stops } = engineWithStops(trial.options(), 'charge_created/call#1:after')
    const running = trial.execute(engine)
    await stops[0].reached
    await lose()
    stops[0].go()
    expect(await running).toMatchObject({
      type: 'stuck',
      reason: 'unknown_outcome',
      recoveryPoint: 'started',
    })
    await engine.close()
    const another = createEngine(trial.options())
    expect(await trial.execute(another)).toMatchObject({ type: 'stuck' })
    expect(await trial.provider.requests()).toHaveLength(1)
    await another.close()
  })

  test('a later COMMIT of unknown outcome that finds the key before the call does not make the call again', async () => {
    const proxy = await PostgresProxy.start(database.url)
    const trial = newTrial()
    const settled = hear('pawl:commit_settled')
    const pool = database.pool({ connectionString: proxy.url })
    const { engine, stops } = engineWithStops(trial.options(pool), 'noted/commit#1:before')
    const running = trial.execute(engine)
    await stops[0].reached
    // Everything since ride_created is lost, including the declaration of the call.
    const { state, trail } = { state: '{}', trail: '[{"p":"ride_created","t":1,"f":1}]' }
    await database.rows(
      `UPDATE pawl.idempotency_keys SET recovery_point = 'ride_created', state = '${state}', intent = NULL,
              trail = '${trail}'`,
    )
    const struck = proxy.armCommit('commit_lost')
    stops[0].go()
    await struck
    const outcome = await running
    expect(settled).toMatchObject([{ phase: 'noted', committed: false }])
    expect(await trial.provider.requests()).toHaveLength(1)
    if (guarantee === 'at_most_once') {
      expect(outcome).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
      expect(await trial.row()).toMatchObject({ intent: { kind: 'calling', phase: 'charge_created' } })
    } else {
      expect(outcome).toMatchObject({ type: 'completed' })
    }
    await engine.close()
    await proxy.close()
  })
})

describe('an intent of a phase other than the next', () => {
  const CALLING = `'{"kind":"calling","phase":"charge_created","deadlineMs":1}'`

  /** A key that died after its first phase, and has gone back behind it with what is known of its call. */
  async function keyGoneBack(): Promise<RideTrial> {
    const trial = new RideTrial(database, rideWith('at_most_once'))
    await trial.dieAt('ride_created/commit#1:after')
    await database.expireLeases()
    await lose(`recovery_point = 'started', state = '{}', trail = '[]', intent = ${CALLING}`)
    return trial
  }

  test('is neither run past nor cleared: the key is stuck, and says why', async () => {
    const trial = await keyGoneBack()
    const engine = createEngine(trial.options())
    const outcome = await trial.execute(engine)
    expect(outcome).toMatchObject({ type: 'stuck', reason: 'unknown_outcome', recoveryPoint: 'started' })
    expect(await engine.inspect(trial.scope, trial.key)).toMatchObject({
      call: { phase: 'charge_created', known: 'may_have_been_made' },
      lastError: expect.stringMatching(/PAWL_KEY_WENT_BACK.*'started'.*'charge_created'/s),
    })
    expect(await trial.rides()).toEqual([])
    expect(await trial.provider.requests()).toEqual([])
    await engine.close()
  })

  test.each([
    { verdict: { type: 'executed', result: { id: 'ch_by_person' } }, calls: 0 },
    { verdict: { type: 'not_executed' }, calls: 1 },
  ] as const)(
    'is settled or called in its turn once a person has said $verdict.type',
    async ({ verdict, calls }) => {
      const trial = await keyGoneBack()
      const engine = createEngine(trial.options())
      await trial.execute(engine)
      const operator = createOperator({ pool: database.pool(), schema: database.schema })
      const of = { scope: trial.scope, key: trial.key }
      const unstuck = await operator.unstick(of, { actor: 'ops', reason: 'looked it up' }, verdict)
      expect(unstuck).toMatchObject({ type: 'done' })
      const outcome = await trial.execute(engine)
      expect(outcome).toMatchObject({ type: 'completed' })
      expect(await trial.provider.requests()).toHaveLength(calls)
      expect(await trial.rides()).toHaveLength(1)
      expect((await trial.row())?.trail.map(({ p }) => p)).toEqual([
        'ride_created',
        'charge_created',
        'noted',
        'finished',
      ])
      await engine.close()
    },
  )

  test('keeps the epoch of its provider key while phases before it run', async () => {
    const trial = await keyGoneBack()
    await database.rows('UPDATE pawl.idempotency_keys SET effect_epoch = 3')
    const { engine, stops } = engineWithStops(trial.options(), 'charge_created/declare_call#1:before')
    await trial.execute(engine)
    const operator = createOperator({ pool: database.pool(), schema: database.schema })
    const of = { scope: trial.scope, key: trial.key }
    await operator.unstick(of, { actor: 'ops', reason: 'looked it up' }, { type: 'not_executed' })
    const epochs = () => database.rows('SELECT effect_epoch FROM pawl.idempotency_keys')
    const before = await epochs()
    const running = trial.execute(engine)
    await stops[0].reached
    expect(await trial.row()).toMatchObject({ recovery_point: 'ride_created' })
    expect(await epochs()).toEqual(before)
    expect(before).not.toEqual([{ effect_epoch: 0 }])
    stops[0].go()
    expect(await running).toMatchObject({ type: 'completed' })
    await engine.close()
  })

  test('is kept while a phase before it fails, after a person has said what came of the call', async () => {
    const trial = await keyGoneBack()
    const engine = createEngine(trial.options())
    await trial.execute(engine)
    const operator = createOperator({ pool: database.pool(), schema: database.schema })
    const of = { scope: trial.scope, key: trial.key }
    const verdict = { type: 'executed', result: { id: 'ch_by_person' } } as const
    await operator.unstick(of, { actor: 'ops', reason: 'looked it up' }, verdict)
    await database.rows('ALTER TABLE rides RENAME TO rides_away')
    expect(await trial.execute(engine)).toMatchObject({ type: 'retry_later', recoveryPoint: 'started' })
    expect(await trial.row()).toMatchObject({
      intent: { kind: 'called', phase: 'charge_created', said: true },
    })
    await database.rows('ALTER TABLE rides_away RENAME TO rides')
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
    expect(await trial.provider.requests()).toEqual([])
    await engine.close()
  })

  test('that appears while a phase runs is not cleared by its advance', async () => {
    const trial = new RideTrial(database, rideWith('at_most_once'))
    const { engine, stops } = engineWithStops(trial.options(), 'ride_created/commit#1:before')
    const running = trial.execute(engine)
    await stops[0].reached
    await database.rows(`UPDATE pawl.idempotency_keys SET intent = ${CALLING}`)
    stops[0].go()
    expect(await running).toMatchObject({ type: 'in_flight', fencedOff: true })
    expect(await trial.row()).toMatchObject({
      recovery_point: 'started',
      intent: { kind: 'calling', phase: 'charge_created' },
    })
    await engine.close()
  })
})
