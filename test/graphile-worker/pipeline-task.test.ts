import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Engine, Pipeline } from '@pawl/core'
import { graphileStager, pipelineTask } from '@pawl/graphile-worker'
import { run, type Task } from 'graphile-worker'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { engineThatDiesAt } from '../support/crash.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, type Database, type RideInput } from '../support/rides.js'
import { GraphileDatabase } from './graphile-database.js'

let graphile: GraphileDatabase
let provider: Provider
let createRide: Pipeline<Database, RideInput>
let engine: Engine<Database>
let task: Task

beforeAll(async () => {
  graphile = await GraphileDatabase.create()
})
beforeEach(() => {
  provider = new Provider(inject('providerUrl'))
  createRide = createRideOf(provider)
  engine = createEngine(options())
  task = pipelineTask(engine, createRide)
})
afterEach(async () => {
  await engine.close()
  await graphile.clear()
})
afterAll(() => graphile.drop())

const options = (pool = graphile.database.pool()) => ({
  pool,
  pipelines: [createRide],
  schema: graphile.database.schema,
  stager: graphileStager<Database>({ schema: graphile.schema }),
})
const ridesOf = (scope: string) =>
  graphile.database.rows('SELECT amount FROM rides WHERE rider = $1', [scope])
/** What a worker passes to the task besides the payload, reduced to what the tasks of this package read. */
const helpersOf = (job: unknown) => ({ job }) as unknown as Parameters<Task>[1]

/** The jobs that the tests are about: nobody works on what the ride itself stages. */
async function rideJobs() {
  return (await graphile.jobs()).filter((job) => job.task_identifier === 'create_ride')
}

async function onlyJob() {
  const [job, ...others] = await rideJobs()
  if (job === undefined || others.length > 0) throw new Error('there is not exactly one job')
  return job
}

test('a continuous runner runs the pipeline once for each job', async () => {
  // In a database of its own, because a runner ends when it hears that anybody migrates graphile-worker, as other tests do.
  const name = `t_${randomUUID().replaceAll('-', '')}`
  await graphile.database.rows(`CREATE DATABASE ${name}`)
  const alone = await GraphileDatabase.create(new URL(`/${name}`, graphile.database.url).href)
  const { schema } = alone.database
  const there = createEngine({ pool: alone.database.pool(), pipelines: [createRide], schema })
  const runner = await run({ ...alone.options(), taskList: { create_ride: pipelineTask(there, createRide) } })
  for (const amount of [3, 4]) {
    const done = once(runner.events, 'job:complete')
    await alone.addJob('create_ride', { amount }, randomUUID())
    await done
    await alone.writtenDown()
  }
  await runner.stop()
  await there.close()
  expect((await provider.ledger()).map((entry) => entry.amount)).toEqual([3, 4])
  expect(await alone.jobs()).toEqual([])
  await alone.drop()
  await graphile.database.rows(`DROP DATABASE ${name} WITH (FORCE)`)
})

describe('the effect happens once', () => {
  test('if the worker dies after the pipeline has finished, before the job is marked as done', async () => {
    await graphile.addJob('create_ride', { amount: 5 }, randomUUID())
    const dying: Task = async (payload, helpers) => {
      await task(payload, helpers)
      throw new Error('died here')
    }
    await graphile.work({ create_ride: dying })
    expect(await onlyJob()).toMatchObject({ attempts: 1, last_error: 'died here' })
    await graphile.makeDue()
    await graphile.work({ create_ride: task })
    expect(await rideJobs()).toEqual([])
    expect(await provider.requests()).toHaveLength(1)
  })

  test.each(['charge_created/call#1:after', 'charge_created/commit#1:before'])(
    'if the process dies at %s, and the job of the dead worker is delivered again',
    async (at) => {
      const { database, quoted } = graphile
      await graphile.addJob('create_ride', { amount: 6 }, randomUUID())
      // As a worker does when it takes the job.
      await database.rows(
        `UPDATE ${quoted}._private_jobs SET locked_at = now(), locked_by = 'doomed', attempts = 1`,
      )
      const application_name = `doomed_${randomUUID()}`
      const searchPath = `-c search_path=${database.businessSchema}`
      const pool = new pg.Pool({ connectionString: database.url, application_name, options: searchPath })
      const doomed = engineThatDiesAt(options(pool), at)
      void pipelineTask(doomed.engine, createRide)({ amount: 6 }, helpersOf(await onlyJob()))
      await doomed.died
      await database.backendsGone(application_name)
      await database.expireLeases()
      await database.rows(`SELECT ${quoted}.force_unlock_workers(ARRAY['doomed'])`)
      await graphile.work({ create_ride: task })
      expect(await rideJobs()).toEqual([])
      expect(await provider.requests()).toHaveLength(2)
      expect(await provider.ledger()).toHaveLength(1)
    },
  )

  test('if the provider executed and its answer was lost, and the job is retried', async () => {
    await provider.willMeet('executes_then_cuts')
    await graphile.addJob('create_ride', { amount: 7 }, randomUUID())
    await graphile.work({ create_ride: task })
    expect(await onlyJob()).toMatchObject({ attempts: 1, last_error: expect.stringMatching(/is not done/) })
    await graphile.makeDue()
    await graphile.work({ create_ride: task })
    expect(await rideJobs()).toEqual([])
    expect(await provider.requests()).toHaveLength(2)
    expect(await provider.ledger()).toHaveLength(1)
  })

  test('if a job is added again under its key', async () => {
    const key = randomUUID()
    for (const amount of [8, 9]) {
      await graphile.addJob('create_ride', { amount }, key)
      await graphile.work({ create_ride: task })
    }
    expect(await rideJobs()).toEqual([])
    expect(await provider.ledger()).toMatchObject([{ amount: 8 }])
  })

  test('if the payload is rewritten between two attempts, of which the first counts', async () => {
    const key = randomUUID()
    await provider.willMeet('refuse_500')
    await graphile.addJob('create_ride', { amount: 10 }, key)
    await graphile.work({ create_ride: task })
    await graphile.addJob('create_ride', { amount: 11 }, key)
    await graphile.work({ create_ride: task })
    expect(await rideJobs()).toEqual([])
    expect(await provider.ledger()).toMatchObject([{ amount: 10 }])
  })

  test('if two workers get one job at once, and the second is told that the first runs it', async () => {
    await provider.willMeet('execute_then_hold')
    await graphile.addJob('create_ride', { amount: 12 }, randomUUID())
    const job = await onlyJob()
    const first = graphile.work({ create_ride: task })
    await provider.arrived()
    const other = createEngine(options())
    await expect(pipelineTask(other, createRide)({ amount: 12 }, helpersOf(job))).rejects.toMatchObject({
      name: 'JobNotDone',
      message: `Job ${job.id} (create_ride) is not done: another worker runs it.`,
      outcome: { type: 'in_flight' },
    })
    await provider.letGo()
    await first
    await other.close()
    expect(await rideJobs()).toEqual([])
    expect(await provider.requests()).toHaveLength(1)
  })

  test('for each of many jobs that two workers share, each with an engine of its own', async () => {
    const amounts = Array.from({ length: 12 }, (_, index) => index + 1)
    for (const amount of amounts) await graphile.addJob('create_ride', { amount }, randomUUID())
    const other = createEngine(options())
    await Promise.all([
      graphile.work({ create_ride: task }, 2),
      graphile.work({ create_ride: pipelineTask(other, createRide) }, 2),
    ])
    await other.close()
    expect(await rideJobs()).toEqual([])
    const charged = (await provider.ledger()).map((entry) => entry.amount)
    expect(charged.toSorted((a, b) => a - b)).toEqual(amounts)
  })
})

test('what a ride stages is a job whose own pipeline runs once, under the id that stage returned', async () => {
  await graphile.addJob('create_ride', { amount: 1 }, randomUUID())
  await graphile.work({ create_ride: task })
  const [receipt] = await graphile.jobs()
  const seen: unknown[] = []
  await graphile.work({ send_receipt: (payload, { job }) => void seen.push([payload, job.key]) })
  expect(seen).toEqual([[{ rideId: expect.any(String) }, receipt?.key]])
})

test('a stored 4xx response is an answer: the job is done, and not tried again', async () => {
  await provider.willMeet('declined')
  await graphile.addJob('create_ride', { amount: 13 }, 'declined')
  await graphile.work({ create_ride: task })
  expect(await rideJobs()).toEqual([])
  const view = await engine.inspect('graphile-worker create_ride', 'declined')
  expect(view).toMatchObject({ status: 'finished' })
  expect(await provider.requests()).toHaveLength(1)
})

describe('the key of a job', () => {
  test('is its id if it has no key, so that each such job runs', async () => {
    await graphile.addJob('create_ride', { amount: 14 })
    await graphile.addJob('create_ride', { amount: 14 })
    const jobs = await rideJobs()
    await graphile.work({ create_ride: task })
    expect(await provider.ledger()).toHaveLength(2)
    for (const { id } of jobs)
      expect(await engine.inspect('graphile-worker create_ride', `job ${id}`)).toMatchObject({
        status: 'finished',
      })
  })

  test('belongs to the scope that the option returns', async () => {
    const scope = `tenant-${randomUUID()}`
    await graphile.addJob('create_ride', { amount: 15 }, 'k')
    const { id } = await onlyJob()
    const scoped = pipelineTask(engine, createRide, { scope: (job) => `${scope} ${job.id}` })
    await graphile.work({ create_ride: scoped })
    expect(await engine.inspect(`${scope} ${id}`, 'k')).toMatchObject({ status: 'finished' })
    expect(await ridesOf(`${scope} ${id}`)).toEqual([{ amount: 15 }])
  })
})
