import type { Outcome } from '@pawl/core'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const DAY_MS = 24 * 3_600_000

let database: TestDatabase
let trial: RideTrial

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  trial = new RideTrial(database)
})
afterEach(() => database.drop())

async function complete(pool = database.pool()): Promise<Extract<Outcome, { type: 'completed' }>> {
  const engine = createEngine(trial.options(pool))
  const outcome = await trial.execute(engine)
  await engine.close()
  if (outcome.type !== 'completed') throw outcome
  return outcome
}

describe('a ride runs through its phases', () => {
  test('and leaves its key, its effect, its job and its business rows as designed', async () => {
    const { keyId, response, expiresAt } = await complete()
    const [charge] = await trial.provider.ledger()
    const [ride] = await trial.rides()
    expect(await trial.rides()).toEqual([
      { id: ride?.id, rider: trial.scope, amount: 1_200, charge_id: charge?.id, key_id: keyId },
    ])

    const body = JSON.stringify({ id: ride?.id, charge: charge?.id })
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      location: `/rides/${ride?.id}`,
    }
    expect(response).toEqual({ status: 201, headers, body: Buffer.from(body) })

    const trail = ['ride_created', 'charge_created', 'finished'].map((p) => ({
      p,
      t: expect.any(Number) as number,
      f: 1,
    }))
    const [row] = await database.rows<Record<string, unknown>>('SELECT * FROM pawl.idempotency_keys')
    expect(row).toEqual({
      id: keyId,
      scope: trial.scope,
      kind: 'pipeline',
      key: trial.key,
      pipeline: 'create-ride',
      version: 1,
      definition_hash: trial.pipeline.definitionHash,
      fingerprint: expect.any(Buffer) as Buffer,
      fingerprint_version: 1,
      input: { amount: 1_200 },
      state: { rideId: ride?.id, chargeId: charge?.id },
      recovery_point: 'finished',
      status: 'finished',
      stuck_reason: null,
      fence: '1',
      holder: expect.any(String) as string,
      lease_until: null,
      attempts: 0,
      retries: 0,
      run_after: null,
      intent: null,
      revision: '4',
      stored_bytes: '0',
      undone_before: 0,
      traceparent: null,
      effect_epoch: 0,
      last_error: null,
      trail,
      response_status: 201,
      response_headers: headers,
      response_body: Buffer.from(body),
      created_at: expect.any(Date) as Date,
      updated_at: expect.any(Date) as Date,
      expires_at: expect.any(Date) as Date,
      unstuck_at: null,
    })
    const [{ retained } = {}] = await database.rows<{ retained: number }>(
      `SELECT extract(epoch FROM to_timestamp($1::double precision / 1000) - updated_at)::float * 1000 AS retained
         FROM pawl.idempotency_keys`,
      [expiresAt.getTime()],
    )
    expect(Math.abs((retained ?? 0) - DAY_MS)).toBeLessThan(1_000)

    expect(await database.rows('SELECT * FROM pawl.effects')).toEqual([
      {
        id: expect.any(String) as string,
        key_id: keyId,
        scope: trial.scope,
        key: trial.key,
        pipeline: 'create-ride',
        version: 1,
        fence: '1',
        phase: 'charge_created',
        effect: 'charge_created',
        provider_key: charge?.key,
        reference: charge?.id,
        created_at: expect.any(Date) as Date,
        undone_at: null,
      },
    ])
    expect(
      await database.rows('SELECT name, payload, key_id, attempts, claim, dead_at FROM pawl.staged_jobs'),
    ).toEqual([
      {
        name: 'send_receipt',
        payload: { rideId: ride?.id },
        key_id: keyId,
        attempts: 0,
        claim: null,
        dead_at: null,
      },
    ])
  })

  // Shows I4.
  test('and each commit shows its recovery point together with its rows, and no earlier', async () => {
    const seen: unknown[] = []
    const look = async () => {
      const [{ rides, charged, effects, jobs } = {}] = await database.rows<Record<string, number>>(
        `SELECT (SELECT count(*)::int FROM rides) AS rides, (SELECT count(charge_id)::int FROM rides) AS charged,
                (SELECT count(*)::int FROM pawl.effects) AS effects, (SELECT count(*)::int FROM pawl.staged_jobs) AS jobs`,
      )
      return [(await trial.row())?.recovery_point, { rides, charged, effects, jobs }]
    }
    await trial.executeWatched(async ({ step, when }) => {
      if (step === 'commit') seen.push([when, ...(await look())])
    })
    const started = ['started', { rides: 0, charged: 0, effects: 0, jobs: 0 }]
    const created = ['ride_created', { rides: 1, charged: 0, effects: 0, jobs: 0 }]
    const charged = ['charge_created', { rides: 1, charged: 1, effects: 1, jobs: 0 }]
    const finished = ['finished', { rides: 1, charged: 1, effects: 1, jobs: 1 }]
    expect(seen).toEqual([
      ['before', ...started],
      ['after', ...created],
      ['before', ...created],
      ['after', ...charged],
      ['before', ...charged],
      ['after', ...finished],
    ])
  })
})

/** Makes each statement that may insert a key report its transaction id, and returns what was reported. */
async function transactionIds(pool: pg.Pool): Promise<string[]> {
  await database.rows(
    `CREATE FUNCTION pawl.tell() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE NOTICE 'id %', coalesce(pg_current_xact_id_if_assigned()::text, 'none'); RETURN NULL; END $$;
     CREATE TRIGGER tell AFTER INSERT ON pawl.idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION pawl.tell()`,
  )
  const told: string[] = []
  pool.on('connect', (client) => client.on('notice', ({ message }) => void told.push(message ?? '')))
  return told
}

/** The row, with its place and the transactions that wrote and locked it. */
function rowVersion(): Promise<unknown[]> {
  return database.rows('SELECT ctid, xmin, xmax, * FROM pawl.idempotency_keys')
}

describe('a replay', () => {
  // Shows I3.
  test('returns the same bytes each time', async () => {
    const completed = await complete()
    const engine = createEngine(trial.options())
    const replays = [await trial.execute(engine), await trial.execute(engine)]
    for (const replay of replays) expect(replay).toEqual({ ...completed, type: 'replayed' })
    await engine.close()
  })

  test('writes nothing, locks no row and takes no transaction id', async () => {
    await complete()
    const before = await rowVersion()
    const pool = database.pool()
    const told = await transactionIds(pool)
    const engine = createEngine(trial.options(pool))
    expect((await trial.execute(engine)).type).toBe('replayed')
    // A write and a row lock both need the transaction's id.
    expect(told).toEqual(['id none'])
    expect(await rowVersion()).toEqual(before)
    await engine.close()
  })
})
