import { respond } from '@pawl/core'
import { sql, type Transaction } from 'kysely'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { LegTrial, points } from './leg-trial.js'

const trial = await LegTrial.open()
const { database } = trial
afterAll(() => database.drop())
beforeEach(() => trial.clear())

const conditional = (first: boolean) =>
  pipeline<null>({ name: 'conditional', version: 1 })
    .local('a', () => ({ wanted: 'c' }), { when: () => first })
    .local('b', (context) => trial.note(context, 'b'), { when: ({ state }) => state.wanted === 'b' })
    .local('c', (context) => trial.note(context, 'c'), { when: ({ state }) => state.wanted !== 'b' })
    .finish(() => respond(204))

describe('a condition', () => {
  test('is decided on the state that the leg has gathered, and what is skipped is in the trail', async () => {
    const { engine, execute, view, steps } = trial.start(conditional(true))
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(await trial.noted()).toEqual(['c'])
    expect((await view())?.trail.map(({ point, skipped }) => [point, skipped])).toEqual([
      ['a', false],
      ['b', true],
      ['c', false],
      ['finished', false],
    ])
    expect(steps.filter((step) => step === 'commit')).toHaveLength(1)
    expect(steps).not.toContain('skip_phase')
    await engine.close()
  })

  test('of the first phase is recorded together with what follows', async () => {
    const { engine, execute, view, steps } = trial.start(conditional(false))
    const committed = hear('pawl:phase_committed')
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(points(await view())).toEqual(['a', 'b', 'c', 'finished'])
    expect(committed.map(({ phase, skipped }) => [phase, skipped])).toEqual([
      ['a', true],
      ['b', true],
      ['c', false],
    ])
    expect(steps).not.toContain('skip_phase')
    await engine.close()
  })
})

const charging = (provider: Provider, after: (context: { readonly tx: Transaction<Database> }) => unknown) =>
  pipeline<null>({ name: 'charging', version: 1 })
    .foreign('charged', {
      call: ({ idempotencyKey, signal }) => provider.charge(900, { idempotencyKey, signal }),
      settle: async (context) => {
        await trial.note(context, 'settled')
        return { charge: context.result.id }
      },
      reference: ({ id }) => id,
    })
    .local('booked', async (context) => {
      await trial.note(context, 'booked')
      await after(context)
    })
    .finish(({ state }) => respond(201, state))

const effects = (keyId: string) =>
  database.rows<{ phase: string }>('SELECT phase FROM pawl.effects WHERE key_id = $1', [keyId])

describe('a leg that begins with a settle', () => {
  test('and fails later keeps the result of the call, which is not made again', async () => {
    const provider = new Provider(inject('providerUrl'))
    let broken = true
    const { engine, execute, view } = trial.start(
      charging(provider, () => (broken ? Promise.reject(new Error('no room')) : undefined)),
    )
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'started' })
    const [charge] = await provider.ledger()
    expect(await view()).toMatchObject({ trail: [], call: { phase: 'charged' } })
    expect(await trial.noted()).toEqual([])

    broken = false
    const outcome = await execute()
    expect(outcome).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(trial.ran).toEqual(['settled', 'booked', 'settled', 'booked'])
    expect(await provider.requests()).toHaveLength(1)
    expect(await provider.ledger()).toEqual([charge])
    expect(outcome.type === 'completed' && (await effects(outcome.keyId))).toEqual([{ phase: 'charged' }])
    await engine.close()
  })

  test('is undone as a whole by a conflict, and the call is not made again', async () => {
    const provider = new Provider(inject('providerUrl'))
    let conflicts = 2
    const { engine, execute } = trial.start(
      charging(provider, ({ tx }) =>
        conflicts-- > 0 ? sql`DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`.execute(tx) : undefined,
      ),
    )
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(await trial.noted()).toEqual(['booked', 'settled'])
    expect(await provider.requests()).toHaveLength(1)
    await engine.close()
  })
})
