import { randomUUID } from 'node:crypto'
import { createBackground, createOperator, type Operator } from '@pawl/core'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { seedEffect, seedKey } from '../support/seeded-rows.js'
import { waitingForLock } from '../support/signals.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { StuckRides, nameOf } from './stuck-rides.js'

const { database, operator, execute, stuckByAge, stuckOnce } = await StuckRides.create()
afterAll(() => database.drop())

const because = { actor: 'anna@ops-1', reason: 'case 4711' }
const DAY_MS = 86_400_000
const inDays = (days: number): Date => new Date(Date.now() + days * DAY_MS)

async function finished(expiresIn = '1 day'): Promise<{ scope: string; key: string; id: string }> {
  const name = { scope: randomUUID(), key: 'k' }
  return { ...name, id: await seedKey(database, { ...name, status: 'finished', expiresIn }) }
}

const named = ({ scope, key }: { scope: string; key: string }) => ({ scope, key })
const notesOf = (scope: string) =>
  database.rows<{ action: string }>(
    'SELECT action, actor, reason, key, key_id, detail FROM pawl.interventions WHERE scope = $1 ORDER BY created_at',
    [scope],
  )

describe('extend', () => {
  test('keeps a finished key until a later moment, and records who wanted that', async () => {
    const key = await finished()
    const until = inDays(30)
    const done = await operator.extend(named(key), because, until)
    expect(done).toMatchObject({ type: 'done', key: { expiresAt: until, status: 'finished' } })
    expect(await notesOf(key.scope)).toMatchObject([
      {
        ...because,
        action: 'extend',
        key: 'k',
        key_id: key.id,
        detail: { given: { until: until.toISOString() } },
      },
    ])
    // Whoever asks twice gets what they asked for, and it is recorded once.
    expect(await operator.extend({ keyId: key.id }, because, until)).toMatchObject({ type: 'done' })
    expect(await notesOf(key.scope)).toHaveLength(1)
  })

  test('leaves fence and holder alone, for a holder that lost the answer to its COMMIT', async () => {
    const key = await finished()
    const read = () =>
      database.rows('SELECT fence, holder FROM pawl.idempotency_keys WHERE id = $1', [key.id])
    const before = await read()
    await operator.extend(named(key), because, inDays(30))
    expect(await read()).toEqual(before)
  })

  test.each([
    ['an earlier moment', inDays(0.5), 'is kept until'],
    ['more than 400 days', inDays(401), 'at most'],
  ])('refuses %s, and changes nothing', async (_, until, detail) => {
    const key = await finished()
    expect(await operator.extend(named(key), because, until)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining(detail) as string,
    })
    expect(await notesOf(key.scope)).toEqual([])
  })

  test.each(['running', 'stuck'] as const)('refuses a key that is %s', async (status) => {
    const name = { scope: randomUUID(), key: 'k' }
    await seedKey(database, { ...name, status })
    expect(await operator.extend(name, because, inDays(30))).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining(`The key is ${status}`) as string,
    })
    expect(await operator.extend({ ...name, key: 'none' }, because, inDays(30))).toEqual({
      type: 'not_found',
      by: null,
    })
  })

  test('of the engine does the same, says by default that the application did it, and names what its role lacks', async () => {
    const trial = new RideTrial(database)
    await execute(trial)
    const engine = createEngine(trial.options())
    const until = inDays(30)
    expect(await engine.extend(trial.scope, trial.key, until)).toMatchObject({
      type: 'done',
      key: { expiresAt: until },
    })
    expect(await notesOf(trial.scope)).toMatchObject([{ actor: 'application', action: 'extend' }])
    await expect(engine.extend(trial.scope, trial.key, 'soon' as never)).rejects.toThrow('until is')
    await engine.close()

    const role = `r_${randomUUID().replaceAll('-', '')}`
    await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.schema} TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.idempotency_keys TO ${role}`)
    onTestFinished(async () => void (await database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)))
    const poor = createEngine(trial.options(database.pool({ options: `-c role=${role}` })))
    await expect(poor.extend(trial.scope, trial.key, inDays(40))).rejects.toMatchObject({
      code: 'PAWL_MISSING_RIGHT',
      message: expect.stringContaining('GRANT SELECT, INSERT ON') as string,
    })
    await poor.close()
  })

  test('wins over a reaper that comes later, and finds nothing after one that came first', async () => {
    const trial = new RideTrial(database)
    const engine = createEngine(trial.options())
    const { reaper } = createBackground({ engine })
    const first = await finished('-1 s')
    expect(await operator.extend(named(first), because, inDays(1))).toMatchObject({ type: 'done' })
    await reaper?.runOnce()
    expect(await operator.show(named(first))).not.toBeNull()
    const second = await finished('-1 s')
    await reaper?.runOnce()
    expect(await operator.extend(named(second), because, inDays(1))).toEqual({ type: 'not_found', by: null })
    await engine.close()
  })
})

describe('forget', () => {
  test('deletes a finished key without effects, and its next request runs again', async () => {
    const key = await finished()
    expect(await operator.forget(named(key), because, { dryRun: true })).toMatchObject({
      type: 'would_be_done',
    })
    expect(await operator.forget(named(key), because)).toMatchObject({ type: 'done', key: { keyId: key.id } })
    expect(await operator.show(named(key))).toBeNull()
    expect(await notesOf(key.scope)).toMatchObject([
      { ...because, action: 'forget', key: 'k', key_id: key.id },
    ])
    expect(await operator.forget(named(key), because)).toEqual({ type: 'not_found', by: null })
  })

  // Shows I19.
  test('refuses a key that had effects, until the operator says that they were undone', async () => {
    const trial = new RideTrial(database)
    await execute(trial)
    const refused = await operator.forget(nameOf(trial), because)
    expect(refused).toMatchObject({
      type: 'refused',
      detail: expect.stringMatching(/charge_created \(ch_.*Undo them at the provider/) as string,
    })
    expect(await execute(trial)).toMatchObject({ type: 'replayed' })
    expect(await operator.forget(nameOf(trial), because, { effectsUndone: true })).toMatchObject({
      type: 'done',
    })
    const effects = await database.rows<{ undone_at: Date | null }>(
      'SELECT undone_at FROM pawl.effects WHERE scope = $1',
      [trial.scope],
    )
    expect(effects).toEqual([{ undone_at: expect.any(Date) as Date }])
    expect(await notesOf(trial.scope)).toMatchObject([
      { detail: { given: { effectsUndone: [expect.any(String)] } } },
    ])
    expect(await execute(trial)).toMatchObject({ type: 'completed' })
    const rides = await trial.rides()
    expect(rides).toHaveLength(2)
    // The provider remembers the charge that was undone, and must not answer with it.
    const charges = await trial.provider.ledger()
    expect(charges).toHaveLength(2)
    expect(new Set(rides.map(({ charge_id }) => charge_id))).toEqual(new Set(charges.map(({ id }) => id)))
  })

  test('refuses a key that a person answered, because nobody recorded what its calls did', async () => {
    const trial = await stuckOnce('executes_then_cuts')
    await operator.answer(nameOf(trial), because, { status: 200 })
    expect(await operator.forget(nameOf(trial), because)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('A person answered it') as string,
    })
    expect(await execute(trial)).toMatchObject({ type: 'replayed' })
    expect(await operator.forget(nameOf(trial), because, { effectsUndone: true })).toMatchObject({
      type: 'done',
    })
  })

  test('refuses it also after a thousand people have looked at it', async () => {
    const key = await finished()
    await database.rows(
      `INSERT INTO pawl.interventions (id, key_id, scope, key, action, actor, reason, created_at)
       SELECT gen_random_uuid(), $1, $2, 'k', CASE WHEN n > 1000 THEN 'answer' ELSE 'reveal' END, 'x', 'x', now() + n * interval '1 ms'
         FROM generate_series(1, 1001) AS n`,
      [key.id, key.scope],
    )
    expect(await operator.forget(named(key), because)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('A person answered it') as string,
    })
  })

  test('refuses a finished key that still knows of a call which was not settled', async () => {
    const key = await finished()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET intent = '{"kind":"called","phase":"charged","result":1}' WHERE id = $1`,
      [key.id],
    )
    expect(await operator.forget(named(key), because)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining("The call of phase 'charged'") as string,
    })
    expect(await operator.forget(named(key), because, { effectsUndone: true })).toMatchObject({
      type: 'done',
    })
  })

  test('refuses as long as effects of an earlier key of that name stand', async () => {
    const key = await finished()
    await seedEffect(database, { ...named(key), at: new Date() })
    expect(await operator.forget(named(key), because)).toMatchObject({ type: 'refused' })
  })

  test('takes nobody’s word for an effect that becomes known after the operator has looked', async () => {
    const key = await finished()
    // The operator reads the effects, and waits for the row; meanwhile one more is recorded.
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(`SELECT 1 FROM ${database.schema}.idempotency_keys WHERE id = $1 FOR UPDATE`, [key.id])
    const application_name = `forgetting_${key.scope.slice(0, 8)}`
    const own = createOperator({ pool: database.pool({ max: 1, application_name }), schema: database.schema })
    const forgetting = own.forget(named(key), because, { effectsUndone: true })
    await waitingForLock(database, application_name)
    await seedEffect(database, { ...named(key), at: new Date() })
    await locker.query('COMMIT')
    locker.release()
    expect(await forgetting).toMatchObject({ type: 'done' })
    expect(await database.rows('SELECT undone_at FROM pawl.effects WHERE scope = $1', [key.scope])).toEqual([
      { undone_at: null },
    ])
  })

  test.each(['running', 'stuck'] as const)('refuses a key that is %s', async (status) => {
    const name = { scope: randomUUID(), key: 'k' }
    await seedKey(database, { ...name, status })
    const refused = await operator.forget(name, because, { effectsUndone: true })
    expect(refused).toMatchObject({ type: 'refused', detail: expect.stringContaining(status) as string })
    expect(await operator.show(name)).not.toBeNull()
  })

  test('of two operators, tells the second that the key is gone, and records one', async () => {
    const key = await finished()
    const ends = await Promise.all(Array.from({ length: 4 }, () => operator.forget(named(key), because)))
    expect(ends.map(({ type }) => type).toSorted()).toEqual(['done', 'not_found', 'not_found', 'not_found'])
    expect(await notesOf(key.scope)).toHaveLength(1)
  })

  test('never deletes a key that was forgotten and reserved again meanwhile', async () => {
    const key = await finished()
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(`DELETE FROM ${database.schema}.idempotency_keys WHERE id = $1`, [key.id])
    const application_name = `forgetting_${key.scope.slice(0, 8)}`
    const own = createOperator({ pool: database.pool({ max: 1, application_name }), schema: database.schema })
    const forgetting = own.forget(named(key), because)
    await waitingForLock(database, application_name)
    await locker.query('COMMIT')
    locker.release()
    await seedKey(database, { ...named(key), status: 'running', leaseIn: '1 min' })
    expect((await forgetting).type).not.toBe('done')
    expect(await operator.show(named(key))).toMatchObject({ key: { status: 'running' } })
  })

  test('gives up on a row that a frozen session has locked', async () => {
    const key = await finished()
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(`SELECT 1 FROM ${database.schema}.idempotency_keys WHERE id = $1 FOR UPDATE`, [key.id])
    expect(await operator.forget(named(key), because)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('locked by a transaction') as string,
    })
    await locker.query('ROLLBACK')
    locker.release()
  })

  test('names the constraint by which a row of the application refers to the key', async () => {
    const plain = await TestDatabase.createPlain()
    onTestFinished(() => plain.drop())
    const id = await seedKey(plain, { scope: 's', key: 'k', status: 'finished' })
    await plain.rows(`CREATE TABLE ${plain.businessSchema}.trips (
      key_id uuid CONSTRAINT trips_key REFERENCES pawl.idempotency_keys (id) ON DELETE RESTRICT)`)
    await plain.rows(`INSERT INTO ${plain.businessSchema}.trips VALUES ($1)`, [id])
    const own: Operator = createOperator({ pool: plain.pool(), schema: plain.schema })
    expect(await own.forget({ scope: 's', key: 'k' }, because)).toMatchObject({
      type: 'refused',
      detail: expect.stringMatching(/'trips' refers to it \(constraint 'trips_key'\)/) as string,
    })
    expect(await own.show({ scope: 's', key: 'k' })).not.toBeNull()
    expect(await plain.rows('SELECT 1 FROM pawl.interventions')).toEqual([])
  })

  test('leaves a stuck key to unstick and answer', async () => {
    const trial = await stuckByAge()
    expect(await operator.forget(nameOf(trial), because)).toMatchObject({
      detail: expect.stringContaining('unstick or answer it first') as string,
    })
  })
})
