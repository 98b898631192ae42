import { randomUUID } from 'node:crypto'
import { type Outcome, type PipelineSettings, respond } from '@pawl/core'
import { JobNotDone, pipelineTask, type PipelineTaskOptions } from '@pawl/graphile-worker'
import type { Job } from 'graphile-worker'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createEngine, pipeline } from '../support/rides.js'
import { GraphileDatabase } from './graphile-database.js'

let graphile: GraphileDatabase

beforeAll(async () => {
  graphile = await GraphileDatabase.create()
})
afterEach(() => graphile.clear())
afterAll(() => graphile.drop())

const FAILURE = new Error('no such table: sk_live_secret')

const failing = (version: number, settings: PipelineSettings = {}) =>
  pipeline({ name: 'failing', version, ...settings })
    .local('never', () => {
      throw FAILURE
    })
    .finish(() => respond(204))
const working = pipeline({ name: 'working', version: 1 }).finish(() => respond(204))

const shared = () => 'shared'

type Target = typeof working

type Settings = PipelineTaskOptions & {
  readonly name?: string
  readonly pool?: ReturnType<GraphileDatabase['database']['pool']>
}

/** Lets a real worker run the only job with a pipeline, and returns what the task threw and what is left of the job. */
async function work(
  target: Target,
  { name = 'note', pool = graphile.database.pool(), ...options }: Settings = {},
) {
  const engine = createEngine({ pool, pipelines: [target], schema: graphile.database.schema })
  const task = pipelineTask(engine, target, options)
  let thrown: unknown = null
  await graphile.work({
    [name]: async (payload, helpers) => {
      await Promise.resolve(task(payload, helpers)).catch((error: unknown) => {
        thrown = error
        throw error
      })
    },
  })
  await engine.close()
  const [job] = await graphile.jobs()
  return { thrown, job }
}

describe('a job whose pipeline has not finished is tried again, and says why', () => {
  test('retry_later: it says where it stopped, with the error as its cause and not in what is stored', async () => {
    await graphile.addJob('note', null)
    const { thrown, job } = await work(failing(1))
    if (!(thrown instanceof JobNotDone) || thrown.outcome.type !== 'retry_later')
      throw new Error(String(thrown))
    const { keyId } = thrown.outcome
    expect(thrown.message).toBe(
      `Job ${job?.id} (note) is not done: it stopped at 'started' (unknown_error, key ${keyId}) and can go on.`,
    )
    expect(thrown.cause).toBe(FAILURE)
    expect(job).toMatchObject({ attempts: 1, locked_at: null, last_error: thrown.message })
  })

  test('stuck: it says that a person has to look, at every attempt', async () => {
    await graphile.addJob('note', null)
    const target = failing(1, { maxAttempts: 1 })
    for (const attempts of [1, 2]) {
      await graphile.makeDue()
      const { thrown, job } = await work(target)
      expect(job).toMatchObject({ attempts })
      expect(thrown).toMatchObject({
        name: 'JobNotDone',
        message: expect.stringMatching(
          /is not done: it is stuck at 'started' \(attempts_exhausted, key [0-9a-f-]{36}\) until a person decides\.$/,
        ),
        outcome: { type: 'stuck', lastError: 'Error: no such table: [key]' },
      })
    }
  })

  test('mismatch: its key belongs to a job of another task, in the scope that both share', async () => {
    const key = randomUUID()
    await graphile.addJob('note', null, key)
    expect((await work(working, { scope: shared })).job).toBeUndefined()
    await graphile.addJob('other', null, key)
    const { thrown, job } = await work(working, { scope: shared, name: 'other' })
    expect(thrown).toMatchObject({
      message: `Job ${job?.id} (other) is not done: its key belongs to another job.`,
      outcome: { type: 'mismatch', differs: 'request' },
    })
  })

  test('mismatch: its key belongs to another pipeline, which the task ran before', async () => {
    await graphile.addJob('note', null)
    await work(failing(1))
    await graphile.makeDue()
    const { thrown } = await work(working)
    expect(thrown).toMatchObject({
      message: expect.stringMatching(/is not done: its key belongs to another pipeline\.$/),
    })
  })

  test('refused: it says which version this process does not have', async () => {
    await graphile.addJob('note', null)
    await work(failing(1))
    await graphile.makeDue()
    const { thrown } = await work(failing(2))
    expect(thrown).toMatchObject({
      message: expect.stringMatching(/is not done: this process cannot run it: .*version 1.*\w\.$/),
      outcome: { type: 'refused', version: 1 },
    })
  })

  test('unavailable: it says that the database is not available, with the error as its cause', async () => {
    await graphile.addJob('note', null)
    // Nobody listens on port 1.
    const { thrown } = await work(working, {
      pool: graphile.database.pool({ connectionString: 'postgres://127.0.0.1:1/x' }),
    })
    expect(thrown).toMatchObject({
      message: expect.stringMatching(/is not done: the database is not available\.$/),
      cause: expect.any(Error),
    })
  })

  test('in_flight: it says that another worker took it over', () => {
    const outcome: Outcome = { type: 'in_flight', retryAfterMs: 1, leaseLeftMs: null, fencedOff: true }
    const error = new JobNotDone({ id: '7', task_identifier: 'note' } as Job, outcome)
    expect(error.message).toBe('Job 7 (note) is not done: another worker took it over.')
  })
})

const refused = (message: string) => expect.objectContaining({ code: 'PAWL_INVALID_OPTION', message })

test('arguments that cannot work are refused when the task is made', async () => {
  const engine = createEngine({
    pool: graphile.database.pool(),
    pipelines: [working],
    schema: graphile.database.schema,
  })
  expect(() => pipelineTask(undefined as never, working)).toThrow(
    refused('pipelineTask: engine is undefined; it takes what createEngine returns.'),
  )
  expect(() => pipelineTask(engine, pipeline({ name: 'unfinished', version: 1 }) as never)).toThrow(
    refused('pipelineTask: pipeline is an object; it takes a pipeline, complete with its finish().'),
  )
  expect(() => pipelineTask(engine, working, { scope: 'all' as never })).toThrow(
    refused(`pipelineTask: scope is 'all'; it takes a function.`),
  )
  expect(() => pipelineTask(engine, working, { scopes: () => 's' } as never)).toThrow(
    refused(`pipelineTask: unknown option 'scopes'. The options are scope.`),
  )
  await engine.close()
})
