import { createOperator } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { RideTrial } from '../support/ride-trial.js'
import { waitingForLock } from '../support/signals.js'
import { because, digestOf, nameOf, StuckRides } from './stuck-rides.js'

const { database, operator, execute, audit, stuckOnce, stuckByWindow, stuckByAge } = await StuckRides.create()
afterAll(() => database.drop())

const sentKeys = async ({ provider }: RideTrial) => (await provider.requests()).map(({ key }) => key)

describe('unstick', () => {
  test('settles a call that was executed with the result that the person gives, and does not make it again', async () => {
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

  test('makes a call that was not executed once more', async () => {
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

  test('makes a call past its window again, under a new provider key, if it was not executed', async () => {
    const trial = await stuckByWindow()
    const name = nameOf(trial)
    const done = await operator.unstick(name, because, { type: 'not_executed', phase: 'charge_created' })
    expect(done).toMatchObject({ type: 'done' })
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    const [first, second] = await sentKeys(trial)
    expect(second).not.toBe(first)
    expect(await trial.row()).toMatchObject({ status: 'finished' })
  })

  test('refuses a verdict on any call but the one in doubt, and any verdict where no call is in doubt', async () => {
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
      detail: expect.stringContaining('None of its calls is in doubt.') as string,
    })
    expect(await Promise.all([once, late, old].map(audit))).toEqual([[], [], []])
  })

  test.each([() => stuckOnce('executes_then_cuts'), stuckByWindow])(
    'refuses an unknown outcome without a verdict, and names the verdicts (%#)',
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

  test('lets a key that grew too old run on, and counts its age from then', async () => {
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

  test('takes no verdict on a call whose result is saved, and settles that result', async () => {
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

  test('lets one of two concurrent operators do it, refuses the other, and records one intervention', async () => {
    const trial = await stuckByAge()
    const id = (await trial.row())?.id
    // Both wait here and have read the same row: neither has seen the other's change.
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
      detail: 'The key is running, and only a stuck key can be unstuck.',
    })
    expect(await audit(trial)).toHaveLength(1)
    expect(await trial.row()).toMatchObject({ fence: '3' })
  })

  test('refuses a row that stays locked, and writes nothing', async () => {
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

  test('reads a row that changed again, where the default isolation is REPEATABLE READ', async () => {
    const trial = await stuckByAge()
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(
      `UPDATE ${database.schema}.idempotency_keys SET last_error = 'moved', revision = revision + 1 WHERE scope = $1`,
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
  'an unstick with %s is made once, recorded once, and reported as done',
  async (fault) => {
    const trial = await stuckByAge()
    const proxy = await PostgresProxy.start(database.url)
    const connection = { connectionString: proxy.url, connectionTimeoutMillis: 1_000 }
    const through = createOperator({ pool: database.pool(connection), schema: database.schema })
    const struck = proxy.armStatement('unstuck_at = pg_catalog.statement_timestamp()', fault)
    const done = await through.unstick(nameOf(trial), because)
    await struck
    await proxy.close()
    expect(done).toMatchObject({ type: 'done', key: { status: 'running', fence: 3 } })
    expect(await audit(trial)).toHaveLength(1)
  },
)
