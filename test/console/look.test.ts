import type { Flow } from '@pawl/core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type {
  DeadJobList,
  DuplicatesAnswer,
  Inbox,
  Reconciliation,
  RequestList,
  RequestReport,
} from '../../packages/console/src/api.js'
import { seedKey } from '../support/seeded-rows.js'
import { fill, SECRETS } from '../cli/filled-database.js'
import { TestDatabase } from '../support/test-database.js'
import { errorOf } from './console-client.js'
import { consoleOn, type TestConsole } from './console-on.js'

let database: TestDatabase
let console: TestConsole
beforeAll(async () => {
  database = await TestDatabase.create()
  await fill(database)
  console = await consoleOn(database)
})
afterAll(async () => {
  await console.close()
  await database.drop()
})

async function keyIdOf(key: string): Promise<string> {
  const [row] = await database.rows<{ id: string }>('SELECT id FROM pawl.idempotency_keys WHERE key = $1', [
    key,
  ])
  return row?.id ?? ''
}

test('the session says who it is and what they may do', async () => {
  expect(await console.as('anna').session()).toMatchObject({
    actor: 'anna@example.com',
    canChange: true,
    canReveal: true,
    schema: database.schema,
    traceUrl: null,
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
  })
  expect(await console.as('ben').session()).toMatchObject({ canChange: false, canReveal: false })
})

describe('a list of requests', () => {
  test('has the keys that match, without what clients sent', async () => {
    const { status, body } = await console.as('ben').get<RequestList>('api/requests?status=stuck')
    expect(status).toBe(200)
    expect(body.rows.map(({ key, stuckReason }) => [key, stuckReason])).toEqual([
      ['poison', 'attempts_exhausted'],
      ['in doubt', 'unknown_outcome'],
    ])
    expect(body.rows[0]).not.toHaveProperty('input')
    expect(body.next).toBeNull()
  })

  test.each([
    ['status=wrong', /status is 'wrong'; it takes one of unfinished, running/],
    ['limit=0', /limit is '0'; it takes a whole number from 1 to 500/],
    ['limit=501', /from 1 to 500/],
    ['version=x', /version is 'x'/],
    ['colour=red', /There is no parameter 'colour'/],
    ['scope=a&scope=b', /'scope' was given more than once/],
    ['after=nonsense', /after is 'nonsense'; it takes the cursor that the page before came with/],
    ['stuckReason=bored', /it takes one of unknown_outcome/],
  ])('refuses %s', async (query, says) => {
    const answer = await console.as('ben').get(`api/requests?${query}`)
    expect(answer.status).toBe(400)
    expect(errorOf(answer)).toMatchObject({ code: 'invalid', message: expect.stringMatching(says) })
  })
})

test('a request is shown with everything but what clients and providers sent', async () => {
  const answer = await console.as('ben').get<RequestReport>(`api/requests/${await keyIdOf('done')}`)
  expect(answer.status).toBe(200)
  const { key, effects, jobs, now } = answer.body
  expect(key).toMatchObject({ key: 'done', scope: 'shop → web', status: 'finished' })
  expect(key.input).toEqual({ hidden: true, bytes: 21 })
  expect(key.response).toMatchObject({ status: 201, headers: { location: { hidden: true } } })
  expect(effects).toMatchObject([{ phase: 'paid', reference: 'ch_1' }])
  expect(jobs).toMatchObject([{ name: 'send_receipt', payload: { hidden: true } }])
  expect(Date.parse(now)).not.toBeNaN()
  const text = JSON.stringify(answer.body)
  for (const secret of Object.values(SECRETS)) expect(text).not.toContain(secret)
})

test.each(['not-a-uuid', '00000000-0000-4000-8000-000000000000'])('there is no request %s', async (id) => {
  const answer = await console.as('ben').get(`api/requests/${id}`)
  expect([400, 404]).toContain(answer.status)
})

test('the inbox has what needs a person, by reason', async () => {
  const { body } = await console.as('ben').get<Inbox>('api/inbox')
  expect(body.groups.map(({ reason, count }) => [reason, count.count])).toEqual([
    ['unknown_outcome', 1],
    ['attempts_exhausted', 1],
  ])
  expect(body.dead).toEqual({ count: 1, isAtLeast: false })
})

test('dead jobs are listed without their payloads', async () => {
  const { body } = await console.as('ben').get<DeadJobList>('api/dead')
  expect(body).toMatchObject({
    isPartial: false,
    jobs: [{ name: 'send_receipt', payload: { hidden: true } }],
  })
  expect(JSON.stringify(body)).not.toContain(SECRETS.payload)
})

describe('keys that nobody runs', () => {
  test('need somebody once they have been due for long, however old they are', async () => {
    const own = await TestDatabase.create()
    const mine = await consoleOn(own)
    onTestFinished(async () => {
      await mine.close()
      await own.drop()
    })
    const old = { createdAgo: '3 hours' }
    await seedKey(own, { key: 'left', ...old, leaseIn: '-6 min' })
    await seedKey(own, { key: 'tried a moment ago', ...old, leaseIn: '-1 s' })
    await seedKey(own, { key: 'rested until now', ...old, runIn: '-1 s' })
    await seedKey(own, { key: 'just written', ...old, updatedAgo: '1 s' })
    await seedKey(own, { key: 'waits for its client', ...old, kind: 'atomic' })
    await seedKey(own, { key: 'held', ...old, leaseIn: '1 min' })
    const { body } = await mine.as('ben').get<Inbox>('api/inbox')
    expect(body.groups).toMatchObject([
      { reason: 'unattended_for_long', count: { count: 1, isAtLeast: false }, keys: [{ key: 'left' }] },
    ])
  })
})

test('of pipelines that no engine has recorded, it shows what the rows say', async () => {
  const own = await TestDatabase.create()
  const mine = await consoleOn(own)
  onTestFinished(async () => {
    await mine.close()
    await own.drop()
  })
  const id = await seedKey(own, { pipeline: 'unheard-of', version: 7, recoveryPoint: 'half_way' })
  const flow = await mine.as('ben').get<Flow>('api/flow')
  expect(flow.body.pipelines).toMatchObject([
    {
      name: 'unheard-of',
      version: 7,
      recorded: null,
      points: [{ point: 'started' }, { point: 'half_way', unattended: 1 }, { point: 'finished' }],
    },
  ])
  const { body } = await mine.as('ben').get<RequestReport>(`api/requests/${id}`)
  expect(body).toMatchObject({ pipeline: null, next: { type: 'unknown' }, key: { version: 7 } })
})

test('times are those of the database, whatever the clock of the console says', async () => {
  const mine = await consoleOn(database)
  onTestFinished(() => mine.close())
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 86_400_000 })
  onTestFinished(() => void vi.useRealTimers())
  const [row] = await database.rows<{ ms: string }>('SELECT extract(epoch FROM now()) * 1000 AS ms')
  const near = (text: string): void => {
    expect(Math.abs(Date.parse(text) - Number(row?.ms))).toBeLessThan(120_000)
  }
  const ben = mine.as('ben')
  near((await ben.get<Flow>('api/flow')).body.at)
  near((await ben.get<RequestReport>(`api/requests/${await keyIdOf('done')}`)).body.now)
  near((await ben.get<DuplicatesAnswer>('api/duplicates')).body.to)
  near((await ben.get<Reconciliation>('api/reconciliation')).body.to)
  const { body } = await ben.get<Reconciliation>('api/reconciliation')
  expect(body.groups).toMatchObject([
    { pipeline: 'place-order', phase: 'paid', effects: 1, withoutReference: 0 },
  ])
})
