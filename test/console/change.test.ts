import { createBackground } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ActionResult, DeadJobList, RequestReport } from '../../packages/console/src/api.js'
import { engineOn, fill, mendImport, ORDER, placeOrder, SECRETS } from '../cli/filled-database.js'
import { createEngine } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { type Answer, errorOf } from './console-client.js'
import { consoleOn, type TestConsole } from './console-on.js'

let database: TestDatabase
let console: TestConsole
beforeEach(async () => {
  database = await TestDatabase.create()
  await fill(database)
  // As long as a test takes: the holder is dead, and its lease is not over.
  await database.rows(
    `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '5 min' WHERE key = 'left behind'`,
  )
  console = await consoleOn(database)
})
afterEach(async () => {
  await console.close()
  await database.drop()
})

interface Row {
  readonly id: string
  readonly status: string
  readonly revision: number
}

async function rowOf(key: string): Promise<Row> {
  const [row] = await database.rows<Row>(
    'SELECT id, status, revision::int FROM pawl.idempotency_keys WHERE key = $1',
    [key],
  )
  if (row === undefined) throw new Error(`There is no key ${key}.`)
  return row
}

interface Noted {
  readonly action: string
  readonly actor: string
  readonly reason: string
}

const noted = () =>
  database.rows<Noted>('SELECT action, actor, reason FROM pawl.interventions ORDER BY created_at')

/** A key, an action that it allows, and what is given with it. */
const ALLOWED = [
  ['poison', 'retry', {}, /running again/, 'unstick'],
  ['in doubt', 'executed', { result: { tracking: 't-1' } }, /counts as executed/, 'unstick'],
  ['in doubt', 'not-executed', {}, /counts as not executed/, 'unstick'],
  [
    'poison',
    'answer',
    { status: 410, body: { gone: true } },
    /finished with your response, status 410/,
    'answer',
  ],
  ['left behind', 'revoke', {}, /lease is taken/, 'revoke'],
  [
    'done',
    'extend',
    { until: new Date(Date.now() + 30 * 86_400_000).toISOString() },
    /kept until 20/,
    'extend',
  ],
  ['done', 'forget', { effectsUndone: true }, /row is deleted/, 'forget'],
] as const

describe.each(ALLOWED)('%s: %s', (key, action, given, says, noteAs) => {
  test('says what it will do, does it once, and is recorded with who and why', async () => {
    const anna = console.as('anna')
    const before = await rowOf(key)
    const preview = await anna.post<ActionResult>(`api/requests/${before.id}/preview/${action}`, {
      ...given,
      ifRevision: before.revision,
    })
    expect(preview).toMatchObject({
      status: 200,
      body: { type: 'would_be_done', sentence: expect.stringMatching(says), key: { keyId: before.id } },
    })
    expect(await rowOf(key)).toEqual(before)
    expect(await noted()).toEqual([])

    const done = await anna.post<ActionResult>(`api/requests/${before.id}/${action}`, {
      ...given,
      ifRevision: before.revision,
      reason: 'Ticket 4711.',
    })
    expect(done).toMatchObject({ status: 200, body: { type: 'done', sentence: expect.stringMatching(says) } })
    expect(await noted()).toEqual([{ action: noteAs, actor: 'anna@example.com', reason: 'Ticket 4711.' }])
  })

  test('of twenty people at once, one gets through, and the others are told who that was', async () => {
    const { id, revision } = await rowOf(key)
    const people = Array.from({ length: 20 }, (_, at) => console.as(at === 0 ? 'berta' : 'anna'))
    await Promise.all(people.map((person) => person.session()))
    const body = { ...given, ifRevision: revision, reason: 'I was first.' }
    const answers = await Promise.all(
      people.map((person) => person.post<ActionResult>(`api/requests/${id}/${action}`, body)),
    )
    const notes = await noted()
    expect(notes.filter((note) => note.action === noteAs)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers.filter(({ status }) => status !== 200)) expectTold(answer, notes[0], noteAs)
  })

  test('without a reason, nothing happens', async () => {
    const { id } = await rowOf(key)
    for (const reason of [undefined, '', '  ', 7]) {
      const answer = await console.as('anna').post(`api/requests/${id}/${action}`, { ...given, reason })
      expect(answer.status).toBe(400)
      expect(errorOf(answer).message).toContain('reason')
    }
    expect(await noted()).toEqual([])
  })
})

function expectTold(answer: Answer, first: Noted | undefined, noteAs: string): void {
  expect(answer.status).toBe(409)
  const { code, by, key } = errorOf(answer)
  expect(code).toBe('refused')
  expect(by).toMatchObject({ actor: first?.actor, reason: 'I was first.', action: noteAs })
  // A key that was forgotten is not there any more.
  if (noteAs !== 'forget') expect(key?.keyId).toBeDefined()
}

describe('what is not allowed', () => {
  test.each([
    ['done', 'retry', {}, /finished/],
    ['in doubt', 'executed', { result: {}, phase: 'paid' }, /call in doubt is that of phase 'parcel_sent'/],
    ['resting', 'answer', { status: 200 }, /only a stuck key can be answered/],
    ['done', 'revoke', {}, /nobody holds it/],
    ['done', 'forget', {}, /phases have had effects/],
    ['poison', 'extend', { until: '2030-01-01T00:00:00Z' }, /stuck|finished/],
    ['poison', 'erase', {}, /The key is stuck/],
    ['resting', 'erase', {}, /The key is running/],
    ['done', 'erase', {}, /recent effect/],
  ])('%s: %s is refused, in a preview and for real', async (key, action, given, says) => {
    const { id } = await rowOf(key)
    const anna = console.as('anna')
    const preview = await anna.post<ActionResult>(`api/requests/${id}/preview/${action}`, given)
    expect(preview).toMatchObject({
      status: 200,
      body: { type: 'refused', sentence: expect.stringMatching(says) },
    })
    const answer = await anna.post(`api/requests/${id}/${action}`, { ...given, reason: 'to see' })
    expect(answer.status).toBe(409)
    expect(errorOf(answer)).toMatchObject({ code: 'refused', message: expect.stringMatching(says), by: null })
    // An erasure is noted before it begins, because one that fails halfway has erased some.
    expect(await noted()).toHaveLength(action === 'erase' ? 2 : 0)
  })

  test.each([
    ['executed', {}, /result is missing/],
    ['answer', { status: 500 }, /status is 500|PAWL|503|asks the client|200 to 499/],
    ['answer', { status: '200' }, /status/],
    ['answer', { status: 200, headers: 'x' }, /headers/],
    ['extend', { until: 'tomorrow' }, /until has to be a moment/],
    ['extend', {}, /until has to be a moment/],
    ['forget', { effectsUndone: 'yes' }, /effectsUndone has to be true or false/],
    ['retry', { ifRevision: '3' }, /ifRevision has to be/],
    ['retry', { resaon: 'x' }, /The body has no member 'resaon'/],
    ['erase', { recentEffects: 1 }, /recentEffects has to be true or false/],
  ])('%s with %o is wrong', async (action, given, says) => {
    const { id } = await rowOf('poison')
    const answer = await console
      .as('anna')
      .post(`api/requests/${id}/${action}`, { reason: 'to see', ...given })
    expect(answer.status).toBe(400)
    expect(errorOf(answer)).toMatchObject({ code: 'invalid', message: expect.stringMatching(says) })
    expect(await noted()).toEqual([])
  })

  test.each(['toString', '__proto__', 'delete'])('there is no action %s', async (action) => {
    const { id } = await rowOf('poison')
    expect((await console.as('anna').post(`api/requests/${id}/${action}`, { reason: 'x' })).status).toBe(404)
  })
})

test('a retry says what will happen after it', async () => {
  const engine = engineOn(database)
  await engine.recordPipelines()
  const { id } = await rowOf('poison')
  const { body } = await console.as('anna').post<ActionResult>(`api/requests/${id}/preview/retry`, {})
  expect(body.sentence).toMatch(/goes on from order_read\. Then: .*order_imported/)
})

test('what was retried is then run by the application', async () => {
  const { id } = await rowOf('poison')
  mendImport(database)
  await console.as('anna').post(`api/requests/${id}/retry`, { reason: 'fixed' })
  const engine = engineOn(database)
  await createBackground({ engine, reaper: false }).runOnce()
  await engine.close()
  expect((await rowOf('poison')).status).toBe('finished')
})

test('of twenty people at once, one erases a key, and the others are told who that was', async () => {
  const { id, revision } = await rowOf('done')
  const people = Array.from({ length: 20 }, (_, at) => console.as(at === 0 ? 'berta' : 'anna'))
  await Promise.all(people.map((person) => person.session()))
  const body = { ifRevision: revision, recentEffects: true, undeliveredJobs: true, reason: 'Their request.' }
  const answers = await Promise.all(
    people.map((person) => person.post<ActionResult>(`api/requests/${id}/erase`, body)),
  )
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  for (const answer of answers.filter(({ status }) => status !== 200)) {
    // Whoever has not even seen the row any more cannot be told.
    expect([404, 409]).toContain(answer.status)
    if (answer.status === 409)
      expect(errorOf(answer).message).toMatch(/is gone|Somebody (?:was first|else is working)/)
  }
  const gone = await console.as('anna').post(`api/requests/${id}/erase`, body)
  expect(gone.status).toBe(404)
})

test('erasing says what is removed, and removes it', async () => {
  const { id, revision } = await rowOf('done')
  const anna = console.as('anna')
  const body = { ifRevision: revision, recentEffects: true, undeliveredJobs: true }
  const preview = await anna.post<ActionResult>(`api/requests/${id}/preview/erase`, body)
  expect(preview.body).toMatchObject({
    type: 'would_be_done',
    sentence: 'This would erase: 1 key, 1 effect, 1 job, 0 interventions.',
  })
  expect(await rowOf('done')).toBeDefined()
  const outdated = await anna.post(`api/requests/${id}/erase`, {
    ...body,
    ifRevision: revision + 1,
    reason: 'x',
  })
  expect(outdated.status).toBe(409)
  const done = await anna.post<ActionResult>(`api/requests/${id}/erase`, {
    ...body,
    reason: 'Their request.',
  })
  expect(done.body).toMatchObject({
    type: 'done',
    sentence: 'Erased: 1 key, 1 effect, 1 job, 0 interventions.',
  })
  await expect(rowOf('done')).rejects.toThrow()
})

describe('what clients and providers sent', () => {
  test('is shown to those who may see it, and that is recorded first', async () => {
    const { id } = await rowOf('done')
    const anna = console.as('anna')
    const { status, body } = await anna.post<RequestReport>(`api/requests/${id}/reveal`, {
      reason: 'Ticket 1.',
    })
    expect(status).toBe(200)
    expect(body.key.input).toEqual({ hidden: false, bytes: 21, value: ORDER })
    expect(body.key.response?.body).toMatchObject({
      hidden: false,
      value: expect.stringContaining(SECRETS.body),
    })
    expect(body.jobs[0]?.payload).toMatchObject({ value: { address: SECRETS.payload } })
    expect(await noted()).toEqual([{ action: 'reveal', actor: 'anna@example.com', reason: 'Ticket 1.' }])
    // The next one who looks sees that somebody did.
    const shown = await console.as('ben').get<RequestReport>(`api/requests/${id}`)
    expect(shown.body.interventions).toMatchObject([{ action: 'reveal', detail: { hidden: true } }])
  })

  test('is not sent where it is huge', async () => {
    const engine = createEngine({
      pool: database.pool(),
      schema: database.schema,
      pipelines: [placeOrder],
      caps: { inputBytes: 500_000 },
    })
    const card = 'x'.repeat(400_000)
    await engine.execute(placeOrder, { scope: 'shop', key: 'huge', input: { card } })
    await engine.close()
    const { id } = await rowOf('huge')
    const { body } = await console
      .as('anna')
      .post<RequestReport>(`api/requests/${id}/reveal`, { reason: 'x' })
    expect(body.key.input).toEqual({ hidden: false, bytes: 400_011, tooLarge: true })
    expect(JSON.stringify(body).length).toBeLessThan(20_000)
  })

  test('is not shown without a reason', async () => {
    const { id } = await rowOf('done')
    expect((await console.as('anna').post(`api/requests/${id}/reveal`, {})).status).toBe(400)
    expect(await noted()).toEqual([])
  })
})

describe('dead jobs', () => {
  test('are requeued by id, or all of a name', async () => {
    const anna = console.as('anna')
    const { body } = await anna.get<DeadJobList>('api/dead?name=send_receipt')
    const jobIds = body.jobs.map(({ jobId }) => jobId)
    expect((await anna.get<DeadJobList>('api/dead?name=other')).body.jobs).toEqual([])
    expect((await anna.post('api/dead/requeue', { jobIds, reason: 'mailbox emptied' })).body).toEqual({
      requeued: 1,
    })
    expect((await anna.post('api/dead/requeue', { name: 'send_receipt', reason: 'again' })).body).toEqual({
      requeued: 0,
    })
    expect(await noted()).toEqual([
      { action: 'requeue', actor: 'anna@example.com', reason: 'mailbox emptied' },
    ])
  })

  test('say what requeueing them would do, and stay as they are', async () => {
    const anna = console.as('anna')
    const { body } = await anna.get<DeadJobList>('api/dead')
    const jobIds = body.jobs.map(({ jobId }) => jobId)
    const sentenceOf = async (which: object) =>
      (await anna.post<ActionResult>('api/dead/preview', which)).body
    expect(await sentenceOf({ jobIds })).toEqual({
      type: 'would_be_done',
      key: null,
      sentence: expect.stringMatching(/^One dead job is delivered again by a relay, /),
    })
    expect((await sentenceOf({ name: 'other' })).sentence).toMatch(/^No dead jobs are/)
    const gone = '0197f3f0-0000-7000-8000-000000000000'
    expect((await sentenceOf({ jobIds: [...jobIds, gone] })).sentence).toMatch(
      /^One dead job is .* One is not dead any more/,
    )
    expect((await anna.get<DeadJobList>('api/dead')).body).toEqual(body)
    expect(await noted()).toEqual([])
  })

  test.each([
    [{}],
    [{ jobIds: [], name: 'x' }],
    [{ jobIds: ['x'] }],
    [{ jobIds: 'x' }],
    [{ name: 7 }],
    [{ all: true }],
  ])('%o is wrong', async (which) => {
    for (const path of ['api/dead/requeue', 'api/dead/preview'])
      expect((await console.as('anna').post(path, { ...which, reason: 'x' })).status, path).toBe(400)
  })
})

test('a console that may only read still shows everything', async () => {
  const role = `reader_${database.schema}`
  await database.admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'reader'`)
  await database.admin.query(
    `GRANT USAGE ON SCHEMA ${database.schema} TO ${role}; GRANT SELECT ON ALL TABLES IN SCHEMA ${database.schema} TO ${role}`,
  )
  const url = new URL(database.url)
  url.username = role
  url.password = 'reader'
  const reading = database.pool({ connectionString: url.href })
  const writing = database.pool({ connectionString: url.href })
  const own = await consoleOn(database, { pool: writing, readPool: reading })
  const anna = own.as('anna')
  const { id } = await rowOf('poison')
  for (const path of [
    'flow',
    'requests',
    `requests/${id}`,
    'inbox',
    'dead',
    'duplicates',
    'interventions',
    'reconciliation',
  ])
    expect((await anna.get(`api/${path}`)).status, path).toBe(200)
  const answer = await anna.post(`api/requests/${id}/retry`, { reason: 'x' })
  expect(answer.status).toBe(503)
  expect(errorOf(answer).code).toBe('missing_right')
  await own.close()
  await Promise.all([reading.end(), writing.end()])
  await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
})
