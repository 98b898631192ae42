import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DeadJobList, Inbox, RequestList, RequestReport } from '../../packages/console/src/api.js'
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
