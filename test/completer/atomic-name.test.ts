import { randomUUID } from 'node:crypto'
import { createOperator, type Engine, respond } from '@pawl/core'
import { executeAtomic } from '@pawl/core/internal'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { completerOf, NO_COUNTS } from '../support/completer-trial.js'
import { engineThatDiesAt } from '../support/crash.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
beforeEach(() => database.rows('DELETE FROM pawl.idempotency_keys'))

/** Named as the adapter names the pipelines of atomic handlers. A name says nothing about what a pipeline is. */
const NAME = 'atomic.transfer'
const transfer = pipeline<null>({ name: NAME, version: 1 })
  .local('booked', async ({ tx }) => {
    await tx.insertInto('audit').values({ what: 'booked' }).execute()
    return {}
  })
  .finish(() => respond(201, { booked: true }))

/** It has one phase, so that only the kind of its key tells it from an atomic handler of the same name. */
const short = pipeline<null>({ name: NAME, version: 1 }).finish(() => respond(201, { by: 'pipeline' }))
const handler = pipeline<null>({ name: NAME, version: 1 }).finish(() => respond(201, { by: 'handler' }))

const operator = createOperator({ pool: database.pool(), schema: database.schema })
const request = { scope: 's', key: 'k', input: null }
const options = (pipelines: readonly (typeof transfer)[]) => ({
  pool: database.pool(),
  pipelines,
  schema: database.schema,
})

/** Leaves the request of a process that died at that position, an hour or more ago. */
async function strand(
  at: string,
  pipelines: readonly (typeof transfer)[],
  ask: (engine: Engine<Database>) => Promise<unknown>,
  since: string,
): Promise<void> {
  // Not a pool of the database's own, since nobody gives back what a dead process had checked out.
  const application_name = `dead_${randomUUID()}`
  const pool = new pg.Pool({
    connectionString: inject('databaseUrl'),
    options: `-c search_path=${database.businessSchema}`,
    application_name,
  })
  const { engine, died } = engineThatDiesAt({ ...options(pipelines), pool }, at)
  void ask(engine)
  await died
  await database.backendsGone(application_name)
  await age(since)
}

const age = (interval: string) =>
  database.rows(
    `UPDATE pawl.idempotency_keys SET lease_until = lease_until - $1::interval, created_at = created_at - $1::interval,
            updated_at = updated_at - $1::interval`,
    [interval],
  )

describe('a pipeline whose name begins like those of atomic handlers', () => {
  beforeEach(async () => {
    await strand('booked/commit#1:after', [transfer], (engine) => engine.execute(transfer, request), '1 hour')
  })

  test('is reported by the operator when one of its keys is stranded', async () => {
    expect(await operator.status()).toMatchObject({
      unfinished: [{ pipeline: NAME, unattended: 1 }],
      oldestUnattended: { scope: 's', key: 'k' },
    })
    const findings = await operator.doctor({ pipelines: [] })
    expect(findings.filter(({ level }) => level !== 'ok').map(({ check }) => check)).toEqual(
      expect.arrayContaining(['versions', 'unattended']),
    )
    expect(await operator.list({ status: 'unattended' })).toMatchObject([
      { pipeline: NAME, kind: 'pipeline', recoveryPoint: 'booked' },
    ])
  })

  test('is completed by the completer', async () => {
    const engine = createEngine(options([transfer]))
    expect(await completerOf(engine).runOnce()).toEqual({ ...NO_COUNTS, found: 1, completed: 1 })
    expect(await engine.execute(transfer, request)).toMatchObject({ type: 'replayed' })
  })
})

describe('an atomic handler of the same name and definition', () => {
  test('does not share its key with the pipeline', async () => {
    await strand(
      'finished/commit#1:before',
      [],
      (engine) => executeAtomic(engine, handler, request),
      '1 hour',
    )
    expect(await operator.list()).toMatchObject([{ pipeline: NAME, kind: 'atomic' }])
    expect(await operator.status()).toMatchObject({ oldestUnattended: null })

    const registered = createEngine(options([short]))
    expect(await completerOf(registered).runOnce()).toEqual(NO_COUNTS)
    const [key] = await operator.list()
    expect(await registered.resume(key?.keyId ?? '')).toMatchObject({ type: 'refused' })
    expect(await registered.execute(short, request)).toMatchObject({ type: 'mismatch', differs: 'pipeline' })
  })

  test('does not make the completer forget keys of the pipeline', async () => {
    await strand('finished/commit#1:before', [short], (engine) => engine.execute(short, request), '2 days')
    const other = createEngine(options([]))
    expect(await executeAtomic(other, handler, { ...request, key: 'other' })).toMatchObject({
      type: 'completed',
    })
    expect(await completerOf(other).runOnce()).toEqual(NO_COUNTS)
    expect(await operator.list()).toMatchObject([{ key: 'k', kind: 'pipeline' }])
  })
})
