import type { JsonValue } from '@pawl/core'
import { graphileStager } from '@pawl/graphile-worker'
import { CamelCasePlugin, sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
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

describe('what graphile-worker gets', () => {
  test('jobOptions sets queue, priority, attempts and flags, which otherwise have their defaults', async () => {
    const asked: unknown[] = []
    const all = { queueName: 'mail', maxAttempts: 3, priority: -7, flags: ['slow', `it's "quoted", {too}`] }
    const jobOptions = (job: unknown) => {
      asked.push(job)
      return all
    }
    await staged.stageOne({ ride: 1 }, { stager: { jobOptions } })
    await staged.stageOne({ ride: 2 })
    expect(asked).toEqual([{ name: 'send_receipt', payload: { ride: 1 } }])
    const flags = { slow: true, [`it's "quoted", {too}`]: true }
    expect(await graphile.jobs()).toMatchObject([
      { queue_name: 'mail', max_attempts: 3, priority: -7, flags, wait_ms: 0 },
      { queue_name: null, max_attempts: 25, priority: 0, flags: null, wait_ms: 0 },
    ])
  })

  test.each([
    { runAfterMs: 3_600_000, waits: 3_600_000 },
    { runAfterMs: 0.5, waits: 0.5 },
    { runAfterMs: -5_000, waits: -5_000 },
    { runAfterMs: 100 * 365 * 24 * 3_600_000, waits: 100 * 365 * 24 * 3_600_000 },
  ])('runAfterMs of $runAfterMs becomes its run_at', async ({ runAfterMs, waits }) => {
    expect(await staged.stageOne({}, { runAfterMs })).toMatchObject({ type: 'completed' })
    expect((await graphile.jobs()).map((job) => job.wait_ms)).toEqual([waits])
  })

  test.each([Number.NaN, Infinity, -Infinity, 1e15, '5' as never])(
    'runAfterMs of %s fails the phase with an error that names it',
    async (runAfterMs) => {
      const error = {
        code: 'PAWL_INVALID_OPTION',
        message: expect.stringContaining(`job 'send_receipt': runAfterMs`),
      }
      expect(await staged.stageOne({}, { runAfterMs })).toMatchObject({ type: 'retry_later', error })
      expect(await graphile.jobs()).toEqual([])
    },
  )

  test.each<{ payload: JsonValue }>([
    { payload: { text: `it's "quoted" \\ $1 :x ? {y}` } },
    { payload: { 'ключ 🦀': 'é\u0301\n\t\u2028' } },
    { payload: [[1, [2.5, [null, [true, {}]]]], []] },
    { payload: null },
    { payload: 'a string' },
    { payload: { big: 9_007_199_254_740_991, small: -1e-7, deep: { snake_case: 1, camelCase: 2 } } },
  ])('a payload arrives as it was staged: $payload', async ({ payload }) => {
    await staged.stageOne(payload)
    expect((await graphile.jobs()).map((job) => job.payload)).toEqual([payload])
  })

  test("plugins of the application do not rename what is graphile-worker's", async () => {
    const target = staging(async ({ stage, tx }) => {
      await stage('sendReceipt', { rideId: 1, snake_case: 2 })
      expect((await sql`SELECT 1 AS some_name`.execute(tx)).rows).toEqual([{ someName: 1 }])
    })
    const outcome = await staged.execute(target, { plugins: [new CamelCasePlugin()] })
    expect(outcome).toMatchObject({ type: 'completed' })
    expect(await graphile.jobs()).toMatchObject([
      { task_identifier: 'sendReceipt', payload: { rideId: 1, snake_case: 2 } },
    ])
  })
})

describe('wrong options', () => {
  test.each([
    {
      given: { scheme: 'jobs' },
      message: /graphileStager: unknown option 'scheme'. The options are schema, jobOptions/,
    },
    { given: { schema: 'a"; DROP' }, message: /graphileStager: schema is .* it takes the name of a schema/ },
    { given: { schema: '' }, message: /schema is ''/ },
    { given: { schema: 7 }, message: /schema is 7/ },
    { given: { jobOptions: { priority: 1 } }, message: /jobOptions is an object; it takes a function/ },
    { given: null, message: /the options are null/ },
  ])('$given is refused at once', ({ given, message }) => {
    const code = 'PAWL_INVALID_OPTION'
    expect(() => graphileStager(given as never)).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    )
  })

  test.each([
    { given: { queue: 'mail' }, message: `unknown option 'queue'` },
    { given: { queueName: '' }, message: `queueName is ''` },
    { given: { queueName: 'q'.repeat(129) }, message: 'it takes a name of 1 to 128 characters' },
    { given: { maxAttempts: 0 }, message: 'maxAttempts is 0; it takes a whole number of 1 or more' },
    { given: { maxAttempts: 32_768 }, message: 'maxAttempts is 32768; it takes at most 32767' },
    { given: { priority: 1.5 }, message: 'priority is 1.5' },
    { given: { flags: 'slow' }, message: `flags is 'slow'; it takes a list of strings` },
    { given: { flags: [null] }, message: 'flags is an array; it takes a list of strings' },
    { given: Promise.resolve({ priority: 1 }), message: 'it takes a function that is not async' },
  ])(
    'jobOptions that returns $given fails the phase with an error that names it',
    async ({ given, message }) => {
      const outcome = await staged.stageOne({}, { stager: { jobOptions: () => given as never } })
      const error = { code: 'PAWL_INVALID_OPTION', message: expect.stringContaining(message) }
      expect(outcome).toMatchObject({ type: 'retry_later', error })
      expect(await graphile.jobs()).toEqual([])
    },
  )

  test('a job name that graphile-worker could not hold fails the phase as well', async () => {
    const target = staging(({ stage }) => stage('n'.repeat(129), {}))
    const error = {
      code: 'PAWL_INVALID_OPTION',
      message: expect.stringContaining('it takes 1 to 128 characters'),
    }
    expect(await staged.execute(target)).toMatchObject({ type: 'retry_later', error })
  })
})
