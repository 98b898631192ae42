import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { engineThatDiesAt } from '../support/crash.js'
import { pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { GraphileDatabase } from './graphile-database.js'
import { Staging, staging } from './staging.js'

let graphile: GraphileDatabase
let staged: Staging

beforeAll(async () => {
  graphile = await GraphileDatabase.create()
  staged = new Staging(graphile)
})
afterEach(() => graphile.clear())
afterAll(() => graphile.drop())

describe('a job exists exactly when its phase committed', () => {
  test('a phase that commits leaves its jobs, under the ids that stage returned, and none of them in staged_jobs', async () => {
    const ids: string[] = []
    const target = staging(async ({ stage }) => {
      ids.push(await stage('send_receipt', { ride: 1 }), await stage('ask_for_rating', { ride: 1 }))
    })
    expect(await staged.execute(target)).toMatchObject({ type: 'completed' })
    expect(await graphile.jobs()).toMatchObject([
      { task_identifier: 'send_receipt', key: ids[0], payload: { ride: 1 }, attempts: 0, locked_at: null },
      { task_identifier: 'ask_for_rating', key: ids[1], payload: { ride: 1 }, attempts: 0, locked_at: null },
    ])
    expect(await graphile.database.rows('SELECT * FROM pawl.staged_jobs')).toEqual([])
  })

  test('a phase that throws leaves none, and one once a retry has committed', async () => {
    let broken = true
    const target = staging(async ({ stage }) => {
      await stage('send_receipt', {})
      if (broken) throw new Error('after the job')
    })
    const key = randomUUID()
    expect(await staged.execute(target, {}, key)).toMatchObject({ type: 'retry_later' })
    expect(await graphile.jobs()).toEqual([])
    broken = false
    expect(await staged.execute(target, {}, key)).toMatchObject({ type: 'completed' })
    expect(await staged.execute(target, {}, key)).toMatchObject({ type: 'replayed' })
    expect(await graphile.jobs()).toHaveLength(1)
  })

  test('a finish that answers 503 is rolled back with its job', async () => {
    const target = pipeline({ name: 'staging', version: 1 }).finish(async ({ stage }) => {
      await stage('send_receipt', {})
      return respond(503)
    })
    expect(await staged.execute(target)).toMatchObject({ type: 'retry_later', reason: 'asked_by_phase' })
    expect(await graphile.jobs()).toEqual([])
  })

  test('a phase that met a conflict, and ran again, leaves the job of its second run', async () => {
    const retried = hear('pawl:phase_retried')
    const { database } = graphile
    await database.rows(`INSERT INTO rides (rider, amount) VALUES ('one', 0)`)
    const ids: string[] = []
    const target = staging(async ({ stage, tx }) => {
      await tx.selectFrom('rides').selectAll().execute()
      ids.push(await stage('send_receipt', {}))
      if (ids.length === 1) await database.rows(`UPDATE rides SET amount = amount + 1 WHERE rider = 'one'`)
      await tx.updateTable('rides').set({ amount: 100 }).where('rider', '=', 'one').execute()
    }, 'repeatable read')
    expect(await staged.execute(target)).toMatchObject({ type: 'completed' })
    expect(retried).toMatchObject([{ phase: 'staged', error: { code: '40001' } }])
    expect(ids).toHaveLength(2)
    expect(await graphile.jobs()).toMatchObject([{ key: ids[1] }])
  })

  test.each([
    { at: 'staged/query#1:after', left: 0 },
    { at: 'staged/commit#1:before', left: 0 },
    { at: 'staged/commit#1:after', left: 1 },
  ])('an engine killed at $at leaves $left, and its successor ends with one', async ({ at, left }) => {
    const { database } = graphile
    const application_name = `doomed_${randomUUID()}`
    // Not one of the database's pools, because its clients are never given back, so that it cannot be ended.
    const pool = new pg.Pool({ connectionString: database.url, application_name })
    const target = staging(({ stage }) => stage('send_receipt', {}))
    const { engine, died } = engineThatDiesAt(staged.options(target, {}, pool), at)
    const key = randomUUID()
    void engine.execute(target, { scope: 's', key, input: null })
    await died
    await database.backendsGone(application_name)
    expect(await graphile.jobs()).toHaveLength(left)
    await database.expireLeases()
    expect(await staged.execute(target, {}, key)).toMatchObject({ type: 'completed' })
    expect(await graphile.jobs()).toHaveLength(1)
  })

  test('a job that the table did not take fails the phase instead of being lost', async () => {
    const { database, quoted } = graphile
    const jobs = `${quoted}._private_jobs`
    await database.rows(`
      CREATE FUNCTION ${quoted}.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER refuse BEFORE INSERT ON ${jobs} FOR EACH ROW EXECUTE FUNCTION ${quoted}.refuse()`)
    const outcome = await staged.stageOne({})
    await database.rows(`DROP TRIGGER refuse ON ${jobs}`)
    expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_INVALID_RESULT' } })
  })

  test('without graphile-worker in the schema, the phase fails and says what to do', async () => {
    const outcome = await staged.stageOne({}, { stager: { schema: 'nothing_here' } })
    expect(outcome).toMatchObject({
      type: 'retry_later',
      recoveryPoint: 'started',
      error: {
        code: 'PAWL_NOT_MIGRATED',
        message: expect.stringMatching(
          /not in schema 'nothing_here'.*runMigrations.*graphileStager\(\{ schema \}\)/,
        ),
        cause: { code: '3F000' },
      },
    })
    const wrong = await staged.stageOne({}, { stager: { schema: graphile.database.schema } })
    expect(wrong).toMatchObject({ error: { code: 'PAWL_NOT_MIGRATED', cause: { code: '42883' } } })
  })
})
