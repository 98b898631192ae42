import { respond } from '@pawl/core'
import { sql } from 'kysely'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { LegTrial, points } from './leg-trial.js'

const trial = await LegTrial.open()
afterAll(() => trial.database.drop())
beforeEach(() => trial.clear())

/** Long enough that a tenth of it is more than the machine takes for anything else. */
const LEASE_MS = 5_000

const fail = (): never => {
  throw new Error('it is broken')
}

describe('a leg ends', () => {
  test.each([
    ['after a phase that asks for it', { commit: 'now' } as const, {}],
    ['before a phase with another isolation', {}, { isolation: 'serializable' } as const],
    ['before a phase with other time-outs', {}, { lockTimeoutMs: 77 }],
    ['before a phase with another lease', {}, { leaseMs: 12_345 }],
  ])('%s', async (_, first, second) => {
    const defined = pipeline<null>({ name: 'ends', version: 1 })
      .local('a', (context) => trial.note(context, 'a'), first)
      .local('b', (context) => trial.note(context, 'b'), second)
      .local('c', () => Promise.reject(new Error('c is broken')), second)
      .finish(() => respond(204))
    const { engine, execute, view } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'a' })
    expect(await trial.noted()).toEqual(['a'])
    expect(points(await view())).toEqual(['a'])
    await engine.close()
  })

  test.each([
    ['a setting', `SET LOCAL search_path = pg_catalog`],
    ['a setting, by a function', `SELECT set_config('app.tenant', 'admin', true)`],
    ['a role', 'SET LOCAL ROLE NONE'],
    ['a savepoint', 'SAVEPOINT mine'],
    ['a cursor', 'DECLARE mine CURSOR FOR SELECT 1'],
    ['a temporary table', 'CREATE TEMPORARY TABLE mine (n int) ON COMMIT DROP'],
    ['a temporary table made by a query', 'CREATE TEMPORARY TABLE mine ON COMMIT DROP AS SELECT 1 AS n'],
    ['a table made by SELECT', 'SELECT 1 AS n INTO TEMPORARY TABLE mine'],
  ])('after a phase that leaves %s in its transaction', async (_, statement) => {
    const defined = pipeline<null>({ name: 'leaves', version: 1 })
      .local('a', async (context) => {
        await trial.note(context, 'a')
        await sql.raw(statement).execute(context.tx)
      })
      .local('b', fail)
      .finish(() => respond(204))
    const { engine, execute, view } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'a' })
    expect(points(await view())).toEqual(['a'])
    await engine.close()
  })

  test('after a phase whose query is still under way', async () => {
    const defined = pipeline<null>({ name: 'hasty', version: 1 })
      .local('a', ({ tx }) => void tx.insertInto('audit').values({ what: 'a' }).execute())
      .local('b', fail)
      .finish(() => respond(204))
    const { engine, execute } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'a' })
    expect(await trial.noted()).toEqual(['a'])
    await engine.close()
  })

  test('after a phase that took much of the time that the next one needs', async () => {
    const defined = pipeline<null>({ name: 'slow', version: 1, idleTimeoutMs: 1_000 })
      .local('a', async (context) => {
        await trial.note(context, 'a')
        await sql`SELECT pg_sleep(0.15)`.execute(context.tx)
      })
      .local('b', fail)
      .finish(() => respond(204))
    const { engine, execute } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'a' })
    await engine.close()
  })

  test('after the settle of a call that took much of the lease, which the next phase needs', async () => {
    const defined = pipeline<null>({ name: 'slow-call', version: 1, leaseMs: LEASE_MS })
      .foreign('called', {
        call: () => new Promise<null>((resolve) => setTimeout(() => resolve(null), LEASE_MS / 5)),
        settle: () => ({}),
      })
      .local('b', fail)
      .finish(() => respond(204))
    const { engine, execute } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'called' })
    await engine.close()
  })

  test('after the settle of a call that must not be made twice: its outcome is known from then on', async () => {
    const defined = pipeline<null>({ name: 'once-only', version: 1 })
      .foreign('called', { guarantee: 'at_most_once', call: async () => null, settle: () => ({}) })
      .local('b', fail)
      .finish(() => respond(204))
    const { engine, execute, view } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'called' })
    expect(points(await view())).toEqual(['called'])
    await engine.close()
  })

  test("before a phase whose 'when' throws, which is then to blame", async () => {
    const failed = hear('pawl:phase_failed')
    const defined = pipeline<null>({ name: 'asks', version: 1 })
      .local('a', (context) => trial.note(context, 'a'))
      .local('b', () => undefined, { when: () => fail() })
      .finish(() => respond(204))
    const { engine, execute } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'a' })
    expect(failed).toMatchObject([{ phase: 'b' }])
    await engine.close()
  })

  test("after each phase of a pipeline with commits: 'each', whatever the engine's default", async () => {
    const defined = pipeline<null>({ name: 'each', version: 1, commits: 'each' })
      .local('a', (context) => trial.note(context, 'a'))
      .local('b', (context) => trial.note(context, 'b'))
      .local('c', fail)
      .finish(() => respond(204))
    const { engine, execute, view } = trial.start(defined)
    expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'b' })
    expect(points(await view())).toEqual(['a', 'b'])
    await engine.close()
  })
})
