import {
  type PipelineSettings,
  type Respond,
  respond,
  type RetryLater,
  retryLater,
  type TransactionContext,
} from '@pawl/core'
import { sql } from 'kysely'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { FEWEST, LegTrial, points } from './leg-trial.js'

const trial = await LegTrial.open()
const { database } = trial
afterAll(() => database.drop())
beforeEach(() => trial.clear())

const FIRST_LEG = ['begin', 'query', 'advance_key', 'commit']
const SECOND_LEG = ['begin', 'query', 'insert_staged_job', 'insert_effect', 'finish_key', 'commit']

const fail = (): never => {
  throw new Error('c is broken')
}

describe("with commits: 'fewest', a ride", () => {
  test('is two transactions, and leaves what three would leave', async () => {
    const trials = [FEWEST, { commits: 'each' } as const].map(
      (defaults) => new RideTrial(database, undefined, { defaults }),
    )
    const traces = await Promise.all(
      trials.map(async (each) => {
        const outcome = await each.executeWatched(() => {})
        if (outcome.type !== 'completed') throw new Error(outcome.type)
        return each.traces(outcome.response)
      }),
    )
    expect(traces[0]).toEqual(traces[1])
  })

  test('takes two commits besides its reservation, and its job and effect travel with the answer', async () => {
    const ride = new RideTrial(database, undefined, { defaults: FEWEST })
    const steps: string[] = []
    await ride.executeWatched(({ step, when }) => void (when === 'before' && steps.push(step)))
    expect(steps).toEqual(['insert_key', ...FIRST_LEG, 'call', ...SECOND_LEG])
  })
})

type Third = (
  context: TransactionContext<Database, null, { a: number; b: number }>,
) => Promise<Respond | RetryLater | void>

/** Three local phases and an answer. */
const threePhases = (third: Third, settings: PipelineSettings = {}) =>
  twoPhases(settings)
    .local('c', third)
    .finish(async (context) => {
      await trial.note(context, 'finished')
      return respond(200, context.state)
    })

const twoPhases = (settings: PipelineSettings = {}) =>
  pipeline<null>({ name: 'legs', version: 1, ...settings })
    .local('a', async (context) => {
      await trial.note(context, 'a')
      return { a: 1 }
    })
    .local('b', async (context) => {
      await trial.note(context, 'b')
      return { b: context.state.a + 1 }
    })

describe('phases between two calls', () => {
  test('share a transaction, see the state of those before, and are each in the trail', async () => {
    const { engine, execute, view, steps } = trial.start(threePhases((context) => trial.note(context, 'c')))
    const committed = hear('pawl:phase_committed')
    const outcome = await execute()
    expect(outcome).toMatchObject({ type: 'completed', response: { status: 200 } })
    expect(outcome.type === 'completed' && outcome.response.body.toString()).toBe('{"a":1,"b":2}')
    expect(steps.filter((step) => step === 'commit')).toHaveLength(1)
    expect(points(await view())).toEqual(['a', 'b', 'c', 'finished'])
    expect(committed.map(({ phase }) => phase)).toEqual(['a', 'b', 'c'])
    expect(await view()).toMatchObject({ recoveryPoint: 'finished', state: { a: 1, b: 2 } })
    await engine.close()
  })

  test.each([
    ['throws', (): never => fail(), 'unknown_error'],
    ['asks for a retry', () => retryLater(new Error('later')), 'asked_by_phase'],
    ['answers with what must not be stored', () => respond(503), 'asked_by_phase'],
  ])('are undone together if one of them %s, and run again', async (_, third, reason) => {
    let broken = true
    const { engine, execute, view } = trial.start(
      threePhases(async (context) => {
        await trial.note(context, 'c')
        return broken ? third() : undefined
      }),
    )
    const committed = hear('pawl:phase_committed')
    const failed = hear('pawl:phase_failed')
    expect(await execute()).toMatchObject({ type: 'retry_later', reason, recoveryPoint: 'started' })
    expect(await trial.noted()).toEqual([])
    expect(await view()).toMatchObject({ recoveryPoint: 'started', state: {}, trail: [] })
    expect(committed).toEqual([])
    expect(failed).toMatchObject([{ phase: 'c' }])

    broken = false
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(trial.ran).toEqual(['a', 'b', 'c', 'a', 'b', 'c', 'finished'])
    expect(await trial.noted()).toEqual(['a', 'b', 'c', 'finished'])
    await engine.close()
  })

  test('commit together with a final answer of one of them, which ends the leg', async () => {
    const { engine, execute, view } = trial.start(
      threePhases(async (context) => {
        await trial.note(context, 'c')
        return respond(409, { taken: true })
      }),
    )
    expect(await execute()).toMatchObject({ type: 'completed', response: { status: 409 } })
    expect(await trial.noted()).toEqual(['a', 'b', 'c'])
    expect(points(await view())).toEqual(['a', 'b', 'finished'])
    expect(await view()).toMatchObject({ state: { a: 1, b: 2 } })
    await engine.close()
  })

  test('are all run again after a conflict in one of them', async () => {
    let conflicts = 1
    const { engine, execute } = trial.start(
      threePhases(async (context) => {
        await trial.note(context, 'c')
        if (conflicts-- > 0) await sql`DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`.execute(context.tx)
      }),
    )
    const retried = hear('pawl:phase_retried')
    expect(await execute()).toMatchObject({ type: 'completed' })
    expect(trial.ran).toEqual(['a', 'b', 'c', 'a', 'b', 'c', 'finished'])
    expect(await trial.noted()).toEqual(['a', 'b', 'c', 'finished'])
    expect(retried).toMatchObject([{ phase: 'c' }])
    await engine.close()
  })

  test.each(['answer_lost', 'commit_lost'] as const)(
    'are neither lost nor doubled when their COMMIT gets no answer: %s',
    async (fault) => {
      const proxy = await PostgresProxy.start(database.url)
      const { engine, execute, view } = trial.start(
        threePhases((context) => trial.note(context, 'c')),
        FEWEST,
        proxy.url,
      )
      const committed = hear('pawl:phase_committed')
      const struck = proxy.armCommit(fault, 0)
      expect(await execute()).toMatchObject({ type: 'completed', response: { status: 200 } })
      await struck
      expect(await trial.noted()).toEqual(['a', 'b', 'c', 'finished'])
      expect(points(await view())).toEqual(['a', 'b', 'c', 'finished'])
      expect(committed.map(({ phase }) => phase)).toEqual(['a', 'b', 'c'])
      await engine.close()
      await proxy.close()
    },
  )

  test('stage jobs in the order of the phases', async () => {
    const staging = pipeline<null>({ name: 'staging', version: 1 })
      .local('a', async ({ stage }) => {
        await stage('first', 1)
        await stage('second', 2)
      })
      .local('b', async ({ stage }) => void (await stage('third', 3)))
      .finish(async ({ stage }) => {
        await stage('fourth', 4)
        return respond(204)
      })
    const { engine, execute } = trial.start(staging)
    const outcome = await execute()
    if (outcome.type !== 'completed') throw new Error(outcome.type)
    const jobs = await database.rows<{ name: string }>(
      'SELECT name FROM pawl.staged_jobs WHERE key_id = $1 ORDER BY seq',
      [outcome.keyId],
    )
    expect(jobs.map(({ name }) => name)).toEqual(['first', 'second', 'third', 'fourth'])
    await engine.close()
  })

  test('are refused the tx of an earlier one, although its transaction is still open', async () => {
    let late: Promise<unknown> | null = null
    const keeping = pipeline<null>({ name: 'keeping', version: 1 })
      .local('a', ({ tx }) => {
        late = new Promise((resolve) => setImmediate(resolve)).then(() =>
          tx.insertInto('audit').values({ what: 'late' }).execute(),
        )
        late.catch(() => {})
      })
      .local('b', async (context) => {
        await trial.note(context, 'b')
        await late?.catch(() => {})
      })
      .finish(() => respond(204))
    const { engine, execute } = trial.start(keeping)
    expect(await execute()).toMatchObject({ type: 'completed' })
    await expect(late).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
    expect(await trial.noted()).toEqual(['b'])
    await engine.close()
  })
})

test('neither setting takes anything else', () => {
  const wrong = { code: 'PAWL_INVALID_OPTION' }
  const defined = threePhases(async () => {})
  const options = { pool: database.pool(), pipelines: [defined], schema: database.schema }
  expect(() => createEngine({ ...options, defaults: { commits: 'none' as 'each' } })).toThrow(
    expect.objectContaining(wrong) as Error,
  )
  expect(() => createEngine({ ...options, defaults: { commit: 'now' } as PipelineSettings })).toThrow(
    expect.objectContaining(wrong) as Error,
  )
  expect(() =>
    pipeline<null>({ name: 'wrong', version: 1 }).local('a', () => undefined, { commit: 'later' as 'now' }),
  ).toThrow("commit is 'later'")
})
