import { createHash, randomUUID } from 'node:crypto'
import { createOperator, type Operator, respond } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import type { Provider } from '../support/provider.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, pipeline, type RideInput } from '../support/rides.js'
import { hear, waitingForLock } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const operator = createOperator({ pool: database.pool(), schema: database.schema })
const because = { actor: 'anna@ops-1', reason: 'the provider says so' }

/** Executes on an engine of its own, as after a deploy. */
async function execute(trial: RideTrial) {
  const engine = createEngine(trial.options(pool))
  const outcome = await trial.execute(engine)
  await engine.close()
  return outcome
}

/** What of a value is written down: enough to tell it by, and nothing of it. */
const digestOf = (value: unknown) => {
  const json = Buffer.from(JSON.stringify(value))
  return { sha256: createHash('sha256').update(json).digest('hex'), bytes: json.length }
}

const nameOf = ({ scope, key }: RideTrial) => ({ scope, key })

/** What was written down of a key. */
const audit = (trial: RideTrial) =>
  database.rows<{ action: string; actor: string; reason: string; detail: { before: object; given: object } }>(
    'SELECT action, actor, reason, detail FROM pawl.interventions WHERE scope = $1 ORDER BY created_at',
    [trial.scope],
  )

const sentKeys = async ({ provider }: RideTrial) => (await provider.requests()).map(({ key }) => key)

/** A ride whose one call was cut off: executed at the provider or not, nobody here knows. */
async function stuckOnce(fault: 'never_arrives' | 'executes_then_cuts'): Promise<RideTrial> {
  const trial = new RideTrial(database, atMostOnceRideOf)
  await trial.provider.willMeet(fault)
  expect(await execute(trial)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  return trial
}

/** A ride with a short memory at the provider, and a row as old as one likes. */
const windowedRideOf = (provider: Provider) =>
  pipeline<RideInput>({ name: 'windowed-ride', version: 1 })
    .foreign('charge_created', {
      windowMs: 60_000,
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: (result) => result.id,
    })
    .finish(({ state }) => respond(201, state))

async function age(trial: RideTrial, minutes: number): Promise<void> {
  await database.rows(
    `UPDATE pawl.idempotency_keys SET created_at = created_at - $2 * interval '1 minute' WHERE scope = $1`,
    [trial.scope, minutes],
  )
}

async function stuckByWindow(): Promise<RideTrial> {
  const trial = new RideTrial(database, windowedRideOf)
  await trial.dieAt('charge_created/call#1:after')
  await database.expireLeases()
  await age(trial, 2)
  expect(await execute(trial)).toMatchObject({ type: 'stuck', reason: 'window_passed' })
  return trial
}

/** A ride that nobody finished within its day. */
async function stuckByAge(): Promise<RideTrial> {
  const trial = new RideTrial(database)
  await trial.dieAt('ride_created/commit#1:after')
  await database.expireLeases()
  await age(trial, 60 * 25)
  expect(await execute(trial)).toMatchObject({ type: 'stuck', reason: 'too_old' })
  return trial
}

describe('unstick', () => {
  test('a call that was executed is settled with the result the person gives, and not made again', async () => {
    const trial = await stuckOnce('executes_then_cuts')
    const [charge] = await trial.provider.ledger()
    const result = { id: charge?.id ?? '', amount: 1_200 }
    const done = await operator.unstick(nameOf(trial), because, { type: 'executed', result })
    expect(done).toMatchObject({
      type: 'done',
      key: { status: 'running', stuckReason: null, lease: null, attempts: 0, call: { known: 'returned' } },
    })
    expect(await execute(trial)).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await trial.provider.requests()).toHaveLength(1)
    expect(await trial.rides()).toMatchObject([{ charge_id: charge?.id }])
    expect(await audit(trial)).toMatchObject([
      {
        ...because,
        action: 'unstick',
        detail: {
          before: { status: 'stuck', stuckReason: 'unknown_outcome', fence: 1, call: { kind: 'calling' } },
          given: { verdict: { type: 'executed', result: digestOf(result) } },
        },
      },
    ])
  })

  test('a call that was not executed is made once more', async () => {
    const trial = await stuckOnce('never_arrives')
    const done = await operator.unstick(nameOf(trial), because, { type: 'not_executed' })
    expect(done).toMatchObject({
      type: 'done',
      key: { call: { phase: 'charge_created', known: 'not_made' } },
    })
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.provider.requests()).toHaveLength(2)
  })

  test('past the window: not executed, and it runs, under another provider key', async () => {
    const trial = await stuckByWindow()
    const name = nameOf(trial)
    const done = await operator.unstick(name, because, { type: 'not_executed', phase: 'charge_created' })
    expect(done).toMatchObject({ type: 'done' })
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    const [first, second] = await sentKeys(trial)
    expect(second).not.toBe(first)
    expect(await trial.row()).toMatchObject({ status: 'finished' })
  })

  test('a verdict is about the call in doubt and no other; where none is, there is nothing to say', async () => {
    const once = await stuckOnce('never_arrives')
    const late = await stuckByWindow()
    const old = await stuckByAge()
    const verdict = { type: 'not_executed', phase: 'chargd' } as const
    const detail = expect.stringMatching(/'charge_created'.*'chargd'/) as string
    for (const trial of [once, late]) {
      expect(await operator.unstick(nameOf(trial), because, verdict)).toMatchObject({
        type: 'refused',
        detail,
      })
    }
    expect(await operator.unstick(nameOf(old), because, { type: 'not_executed' })).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('No call of it is in doubt.') as string,
    })
    expect(await Promise.all([once, late, old].map(audit))).toEqual([[], [], []])
  })

  test.each([() => stuckOnce('executes_then_cuts'), stuckByWindow])(
    'without a verdict, an unknown outcome is refused, with the verdicts there are (%#)',
    async (stuck) => {
      const trial = await stuck()
      const before = await trial.row()
      const refused = await operator.unstick(nameOf(trial), because)
      expect(refused).toMatchObject({
        type: 'refused',
        key: { status: 'stuck' },
        detail: expect.stringMatching(/'executed'.*'not_executed'/) as string,
      })
      expect(await trial.row()).toEqual(before)
      expect(await audit(trial)).toEqual([])
    },
  )

  test('what grew too old runs on, and its age is counted from then', async () => {
    const trial = await stuckByAge()
    expect(await operator.unstick(nameOf(trial), because)).toMatchObject({
      type: 'done',
      key: { status: 'running', unstuckAt: expect.any(Date) as Date },
    })
    await trial.provider.willMeet('refuse_500')
    expect(await execute(trial)).toMatchObject({ type: 'retry_later' })
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('a call whose result is kept is unstuck with it, and no verdict is taken', async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('ride_created/commit#1:after')
    const [charge] = [await trial.provider.charge(1_200)]
    await database.rows(
      `UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'attempts_exhausted', lease_until = NULL,
              attempts = 10, intent = json_build_object('kind', 'called', 'phase', 'charge_created', 'result', $2::json)
        WHERE scope = $1`,
      [trial.scope, JSON.stringify(charge)],
    )
    const contradicted = await operator.unstick(nameOf(trial), because, { type: 'not_executed' })
    expect(contradicted).toMatchObject({ type: 'refused' })
    expect(await operator.unstick(nameOf(trial), because)).toMatchObject({
      type: 'done',
      key: { attempts: 0 },
    })
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.rides()).toMatchObject([{ charge_id: charge.id }])
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await audit(trial)).toHaveLength(1)
  })

  test('two operators at once: one does it, the other is refused, and one is written down', async () => {
    const trial = await stuckByAge()
    const id = (await trial.row())?.id
    // Both wait here, with the same row read: neither has the other's change before its eyes.
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(`SELECT FROM ${database.schema}.idempotency_keys WHERE id = $1 FOR UPDATE`, [id])
    const application_name = `two_${trial.key}`
    const two = [1, 2].map(() =>
      createOperator({ pool: database.pool({ max: 1, application_name }), schema: database.schema }).unstick(
        nameOf(trial),
        because,
      ),
    )
    await waitingForLock(database, application_name, 2)
    await locker.query('COMMIT')
    locker.release()
    const ends = await Promise.all(two)
    expect(ends.map(({ type }) => type).toSorted()).toEqual(['done', 'refused'])
    expect(ends.find(({ type }) => type === 'refused')).toMatchObject({
      key: { status: 'running' },
      detail: 'It is not stuck but running.',
    })
    expect(await audit(trial)).toHaveLength(1)
    expect(await trial.row()).toMatchObject({ fence: '3' })
  })

  test('a row that stays locked is refused, and nothing is written', async () => {
    const trial = await stuckByAge()
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(`SELECT FROM ${database.schema}.idempotency_keys WHERE scope = $1 FOR UPDATE`, [
      trial.scope,
    ])
    const refused = await operator.unstick(nameOf(trial), because)
    expect(refused).toMatchObject({ type: 'refused', detail: expect.stringContaining('locked') as string })
    await locker.query('COMMIT')
    locker.release()
    expect(await audit(trial)).toEqual([])
    expect(await operator.unstick(nameOf(trial), because)).toMatchObject({ type: 'done' })
  })

  test('where the default isolation is REPEATABLE READ, a row that moved is read again', async () => {
    const trial = await stuckByAge()
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(
      `UPDATE ${database.schema}.idempotency_keys SET last_error = 'moved' WHERE scope = $1`,
      [trial.scope],
    )
    const application_name = `repeatable_${trial.key}`
    const options = `-c default_transaction_isolation=repeatable\\ read`
    const strict = createOperator({
      pool: database.pool({ max: 1, application_name, options }),
      schema: database.schema,
    })
    const unstuck = strict.unstick(nameOf(trial), because)
    await waitingForLock(database, application_name)
    await locker.query('COMMIT')
    locker.release()
    expect(await unstuck).toMatchObject({ type: 'done', key: { lastError: 'moved' } })
    expect(await audit(trial)).toMatchObject([{ detail: { before: { lastError: 'moved' } } }])
  })
})

test.each(['answer_lost', 'statement_lost'] as const)(
  'an unstick with %s is made once, written down once, and told as done',
  async (fault) => {
    const trial = await stuckByAge()
    const proxy = await PostgresProxy.start(database.url)
    const connection = { connectionString: proxy.url, connectionTimeoutMillis: 1_000 }
    const through = createOperator({ pool: database.pool(connection), schema: database.schema })
    const struck = proxy.armStatement('unstuck_at = pg_catalog.clock_timestamp()', fault)
    const done = await through.unstick(nameOf(trial), because)
    await struck
    await proxy.close()
    expect(done).toMatchObject({ type: 'done', key: { status: 'running', fence: 3 } })
    expect(await audit(trial)).toHaveLength(1)
  },
)

describe('revoke', () => {
  test('the holder can no longer write, and the request has one effect', async () => {
    const trial = new RideTrial(database)
    const fencedOff = hear('pawl:fenced_off')
    const { engine, frozen, wake } = engineThatFreezesAt(trial.options(), 'ride_created/advance_key#1:before')
    const zombie = trial.execute(engine)
    await frozen
    expect(await operator.revoke(nameOf(trial), because)).toMatchObject({
      type: 'done',
      key: { status: 'running', fence: 2, lease: null, attempts: 1 },
    })
    // Not finished by anybody yet: it is the revocation alone that fences the holder off.
    wake()
    expect(await zombie).toMatchObject({ type: 'in_flight', fencedOff: true })
    expect(fencedOff).toMatchObject([{ phase: 'ride_created', fence: 1 }])
    expect(await trial.rides()).toEqual([])
    await engine.close()

    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.rides()).toHaveLength(1)
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await audit(trial)).toMatchObject([
      {
        ...because,
        action: 'revoke',
        detail: { before: { fence: 1, leaseUntil: expect.any(String) as string } },
      },
    ])
  })

  test('a holder about to commit is waited for, and what it committed is what is taken', async () => {
    const trial = new RideTrial(database)
    // So that it has written the row and can be stopped before its COMMIT.
    const options = trial.options(database.pool(), { pipelining: false })
    const { engine, stops } = engineWithStops(
      options,
      'ride_created/commit#1:before',
      'charge_created/call#1:before',
    )
    const holder = trial.execute(engine)
    const [commit, call] = stops
    await commit.reached
    const application_name = `revoking_${trial.key}`
    const own = { pool: database.pool({ max: 1, application_name }), schema: database.schema }
    const revoking = createOperator(own).revoke(nameOf(trial), because)
    await waitingForLock(database, application_name)
    commit.go()
    await call.reached
    expect(await revoking).toMatchObject({ type: 'done', key: { recoveryPoint: 'ride_created', fence: 2 } })
    expect(await audit(trial)).toMatchObject([{ detail: { before: { recoveryPoint: 'ride_created' } } }])
    call.go()
    expect(await holder).toMatchObject({ type: 'in_flight', fencedOff: true })
    await engine.close()
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.rides()).toHaveLength(1)
  })

  test('what was declared of a call is kept: it is not made a second time', async () => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    await trial.dieAt('charge_created/call#1:after')
    expect(await operator.revoke(nameOf(trial), because)).toMatchObject({
      type: 'done',
      key: { call: { phase: 'charge_created', known: 'may_have_been_made' } },
    })
    expect(await execute(trial)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    expect(await trial.provider.requests()).toHaveLength(1)
  })

  test('where nobody holds the key, there is nothing to revoke', async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('ride_created/commit#1:after')
    await database.expireLeases()
    const before = await trial.row()
    const over = await operator.revoke(nameOf(trial), because)
    expect(over).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('nobody holds it') as string,
    })
    expect(await trial.row()).toEqual(before)
    await execute(trial)
    const finished = await operator.revoke(nameOf(trial), because)
    expect(finished).toMatchObject({ type: 'refused', detail: expect.stringContaining('finished') as string })
    expect(await audit(trial)).toEqual([])
  })
})

describe('answer', () => {
  test("the client's retry gets the operator's response, byte for byte, and no phase runs", async () => {
    const trial = await stuckOnce('executes_then_cuts')
    const body = { error: 'refunded by hand', näme: 'ü' }
    const response = { status: 409, headers: { 'X-Case': '4711' }, body, retentionMs: 60_000 }
    const done = await operator.answer(nameOf(trial), because, response)
    expect(done).toMatchObject({
      type: 'done',
      key: { status: 'finished', recoveryPoint: 'finished', stuckReason: null, fence: 2, call: null },
    })
    const replayed = await execute(trial)
    expect(replayed).toMatchObject({
      type: 'replayed',
      response: {
        status: 409,
        headers: { 'content-type': 'application/json; charset=utf-8', 'x-case': '4711' },
        body: Buffer.from(JSON.stringify(body)),
      },
    })
    expect(await trial.provider.requests()).toHaveLength(1)
    const [row] = await database.rows(
      `SELECT trail->-1->>'p' AS point, trail->-1->>'f' AS fence,
              round(extract(epoch FROM expires_at - updated_at))::int AS kept
         FROM pawl.idempotency_keys WHERE scope = $1`,
      [trial.scope],
    )
    expect(row).toEqual({ point: 'finished', fence: '2', kept: 60 })
    expect(await audit(trial)).toMatchObject([
      {
        ...because,
        action: 'answer',
        detail: {
          before: { stuckReason: 'unknown_outcome' },
          given: { status: 409, body: digestOf(body), retentionMs: 60_000 },
        },
      },
    ])
  })

  test('without a body there is none, and it is kept for a day', async () => {
    const trial = await stuckByAge()
    await operator.answer(nameOf(trial), because, { status: 204 })
    expect(await execute(trial)).toMatchObject({
      type: 'replayed',
      response: { status: 204, headers: {}, body: Buffer.alloc(0) },
    })
    const [row] = await database.rows(
      `SELECT round(extract(epoch FROM expires_at - updated_at) / 3600)::int AS hours
         FROM pawl.idempotency_keys WHERE scope = $1`,
      [trial.scope],
    )
    expect(row).toEqual({ hours: 24 })
  })

  test('only a stuck key can be answered', async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('ride_created/commit#1:after')
    const running = await operator.answer(nameOf(trial), because, { status: 410 })
    expect(running).toMatchObject({ type: 'refused', detail: expect.stringContaining('running') as string })
    await database.expireLeases()
    await execute(trial)
    const finished = await operator.answer(nameOf(trial), because, { status: 410 })
    expect(finished).toMatchObject({ type: 'refused', detail: expect.stringContaining('finished') as string })
    expect(await audit(trial)).toEqual([])
  })
})

const idOf = async (trial: RideTrial) => ({ keyId: (await trial.row())?.id ?? '' })

describe('by the id of the key', () => {
  test('unstick: the call is settled, and what was done is written down under the names of the key', async () => {
    const trial = await stuckOnce('executes_then_cuts')
    const bystander = await stuckOnce('executes_then_cuts')
    const [charge] = await trial.provider.ledger()
    const result = { id: charge?.id ?? '', amount: 1_200 }
    const done = await operator.unstick(await idOf(trial), because, { type: 'executed', result })
    expect(done).toMatchObject({ type: 'done', key: { ...nameOf(trial), status: 'running' } })
    expect(await execute(trial)).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await trial.provider.requests()).toHaveLength(1)
    expect(await audit(trial)).toMatchObject([{ ...because, action: 'unstick' }])
    expect(await operator.show(nameOf(bystander))).toMatchObject({
      key: { status: 'stuck' },
      interventions: [],
    })
  })

  test('answer: the client gets the response', async () => {
    const trial = await stuckOnce('never_arrives')
    const done = await operator.answer(await idOf(trial), because, { status: 410 })
    expect(done).toMatchObject({ type: 'done', key: nameOf(trial) })
    expect(await execute(trial)).toMatchObject({ type: 'replayed', response: { status: 410 } })
  })

  test('revoke: refused where nobody holds it, with the key in the answer', async () => {
    const trial = await stuckOnce('never_arrives')
    expect(await operator.revoke(await idOf(trial), because)).toMatchObject({
      type: 'refused',
      key: nameOf(trial),
    })
  })

  test('a key whose row went and whose names came back is not the one that is meant', async () => {
    const trial = await stuckOnce('never_arrives')
    const before = await idOf(trial)
    await database.rows('DELETE FROM pawl.idempotency_keys WHERE id = $1', [before.keyId])
    await trial.provider.willMeet('never_arrives')
    expect(await execute(trial)).toMatchObject({ type: 'stuck' })
    expect(await operator.answer(before, because, { status: 410 })).toEqual({ type: 'not_found' })
    expect(await operator.show(nameOf(trial))).toMatchObject({ key: { status: 'stuck' } })
  })
})

test('a key that is not there is not found, and nothing is written down', async () => {
  const name = { scope: 'nobody', key: 'none' }
  const before = await database.rows('SELECT count(*) FROM pawl.interventions')
  expect(await operator.unstick(name, because)).toEqual({ type: 'not_found' })
  expect(await operator.revoke(name, because)).toEqual({ type: 'not_found' })
  expect(await operator.answer(name, because, { status: 410 })).toEqual({ type: 'not_found' })
  expect(await database.rows('SELECT count(*) FROM pawl.interventions')).toEqual(before)
})

describe('what makes no sense is refused before anything is asked of the database', () => {
  const name = { scope: 's', key: 'k' }
  type Case = readonly [string, (op: Operator) => Promise<unknown>, string, string]
  const CASES: readonly Case[] = [
    ['an empty actor', (op) => op.revoke(name, { ...because, actor: ' ' }), 'PAWL_INVALID_OPTION', 'actor'],
    ['no reason', (op) => op.revoke(name, { actor: 'a' } as never), 'PAWL_INVALID_OPTION', 'reason'],
    [
      'a reason too long',
      (op) => op.revoke(name, { ...because, reason: 'x'.repeat(2_001) }),
      'PAWL_INVALID_OPTION',
      '2001 characters',
    ],
    [
      'a reason with NUL',
      (op) => op.revoke(name, { ...because, reason: 'a\0b' }),
      'PAWL_INVALID_OPTION',
      'NUL',
    ],
    ['no because', (op) => op.unstick(name, undefined as never), 'PAWL_INVALID_OPTION', 'an object'],
    [
      'an unknown member',
      (op) => op.unstick(name, { ...because, ticket: 1 } as never),
      'PAWL_INVALID_OPTION',
      `'ticket'`,
    ],
    [
      'an id that is none',
      (op) => op.unstick({ keyId: 'k' }, because),
      'PAWL_INVALID_OPTION',
      `keyId is 'k'`,
    ],
    ['no id', (op) => op.show({ keyId: undefined } as never), 'PAWL_INVALID_OPTION', 'the id of a key'],
    [
      'an id beside a name',
      (op) => op.answer({ ...name, keyId: randomUUID() }, because, { status: 410 }),
      'PAWL_INVALID_OPTION',
      'scope and key, or keyId, and not both',
    ],
    [
      'an id beside half a name',
      (op) => op.revoke({ scope: 's', keyId: randomUUID() }, because),
      'PAWL_INVALID_OPTION',
      'not both',
    ],
    ['half a name', (op) => op.revoke({ scope: 's' } as never, because), 'PAWL_INVALID_REQUEST', 'key'],
    ['an empty key', (op) => op.unstick({ ...name, key: '' }, because), 'PAWL_INVALID_REQUEST', 'key'],
    [
      'an unknown verdict',
      (op) => op.unstick(name, because, { type: 'perhaps' } as never),
      'PAWL_INVALID_OPTION',
      `'not_executed', 'executed'`,
    ],
    ['a verdict without type', (op) => op.unstick(name, because, {} as never), 'PAWL_INVALID_OPTION', 'type'],
    [
      'an executed call without a result',
      (op) => op.unstick(name, because, { type: 'executed' } as never),
      'PAWL_NOT_JSON',
      'result',
    ],
    [
      'a result beside not_executed',
      (op) => op.unstick(name, because, { type: 'not_executed', result: 1 } as never),
      'PAWL_INVALID_OPTION',
      'result',
    ],
    [
      'a result too large',
      (op) => op.unstick(name, because, { type: 'executed', result: 'x'.repeat(2 ** 21) }),
      'PAWL_TOO_LARGE',
      '2097152',
    ],
    ...[500, 503, 408, 425, 429].map(
      (status) =>
        [
          `a response of ${status}`,
          (op: Operator) => op.answer(name, because, { status }),
          'PAWL_INVALID_RESPONSE',
          String(status),
        ] as const,
    ),
    ['a response of 199', (op) => op.answer(name, because, { status: 199 }), 'PAWL_INVALID_RESPONSE', '199'],
    [
      'a cookie',
      (op) => op.answer(name, because, { status: 200, headers: { 'Set-Cookie': 'a' } }),
      'PAWL_INVALID_RESPONSE',
      'set-cookie',
    ],
    [
      'a body that is not JSON',
      (op) => op.answer(name, because, { status: 200, body: new Date() as never }),
      'PAWL_NOT_JSON',
      'Date',
    ],
    [
      'a retention of 0',
      (op) => op.answer(name, because, { status: 200, retentionMs: 0 }),
      'PAWL_INVALID_OPTION',
      'retentionMs',
    ],
  ]
  test.each(CASES)('%s', async (_what, step, code, message) => {
    const nowhere = createOperator({ pool: { connect: () => expect.fail('asked') } as never })
    await expect(step(nowhere)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message) as string,
    })
  })

  test('options of createOperator', () => {
    expect(() => createOperator({} as never)).toThrow(/pool is undefined; it takes a pg.Pool/)
    expect(() => createOperator({ pool, schema: 'Pawl' })).toThrow(/schema/)
    expect(() => createOperator({ pool, scheme: 'x' } as never)).toThrow(/unknown option 'scheme'/)
  })
})
