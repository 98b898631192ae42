import { createBackground, createOperator, type Limits, respond, subscribe } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { pawl } from '../cli/pawl.js'
import { randomLetters } from '../support/random-letters.js'
import { createEngine, pipeline } from '../support/rides.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let role: string

beforeEach(async () => {
  database = await TestDatabase.create()
  role = `r_${randomLetters()}`
  await database.admin.query(`CREATE ROLE ${role}`)
})
afterEach(async () => {
  await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  await database.drop()
})

const table = (name: string) => `"${database.schema}"."${name}"`
const asRole = () => database.pool({ options: `-c role=${role} -c search_path=${database.businessSchema}` })

async function grant(...rights: string[]): Promise<void> {
  await database.admin.query(rights.map((right) => `GRANT ${right} TO ${role};`).join(' '))
}

const USAGE = () => `USAGE ON SCHEMA "${database.schema}"`
const ALL = 'SELECT, INSERT, UPDATE, DELETE'

/** The statements in a message that grant what is missing. */
const grantsIn = (message: string): string[] => message.match(/GRANT [^;]+;/g) ?? []

const charge = pipeline<null>({ name: 'charge', version: 1 })
  .foreign('charged', {
    call: async () => ({ id: 'ch_1' }),
    settle: ({ result }) => ({ charge: result.id }),
    reference: (result) => result.id,
  })
  .finish(async ({ stage }) => {
    await stage('send_receipt', {})
    return respond(201)
  })
const request = { scope: 's', key: 'k', input: null }

function engineAs(options: { readonly limits?: Limits } = {}) {
  return createEngine({ pool: asRole(), schema: database.schema, pipelines: [charge], ...options })
}

describe('a request whose role lacks rights', () => {
  test.each(['execute', 'enqueue', 'resume', 'inspect'] as const)(
    '%s throws, says what to grant, and goes through once that is granted',
    async (method) => {
      const keyId = await seedKey(database, { pipeline: 'charge' })
      const engine = engineAs()
      const ask = async (): Promise<unknown> => {
        if (method === 'resume') return engine.resume(keyId)
        return method === 'inspect' ? engine.inspect('s', 'k') : engine[method](charge, request)
      }
      const error = (await ask().catch((thrown: unknown) => thrown)) as Error
      expect(error).toMatchObject({ code: 'PAWL_MISSING_RIGHT', cause: { code: '42501' } })
      expect(error.message).toContain(`Role '${role}' lacks rights that Pawl needs: USAGE on schema`)
      expect(grantsIn(error.message)).toEqual([
        `GRANT USAGE ON SCHEMA "${database.schema}" TO "${role}";`,
        `GRANT ${ALL} ON ${table('idempotency_keys')} TO "${role}";`,
        `GRANT ${ALL} ON ${table('effects')} TO "${role}";`,
        `GRANT ${ALL} ON ${table('staged_jobs')} TO "${role}";`,
      ])
      await database.admin.query(grantsIn(error.message).join(' '))
      await expect(ask()).resolves.not.toMatchObject({ type: 'unavailable' })
      await engine.close()
    },
  )

  test('is told to grant only what is missing', async () => {
    await grant(USAGE(), `SELECT, UPDATE ON ${table('idempotency_keys')}`, `${ALL} ON ${table('effects')}`)
    const engine = engineAs()
    const error = (await engine.execute(charge, request).catch((thrown: unknown) => thrown)) as Error
    expect(grantsIn(error.message)).toEqual([
      `GRANT INSERT, DELETE ON ${table('idempotency_keys')} TO "${role}";`,
      `GRANT ${ALL} ON ${table('staged_jobs')} TO "${role}";`,
    ])
    await engine.close()
  })

  test('that its last statement needs has what to grant on its key, and no call is repeated', async () => {
    await grant(USAGE(), `${ALL} ON ${table('idempotency_keys')}`, `${ALL} ON ${table('staged_jobs')}`)
    // A reservation reads the effects.
    await grant(`SELECT ON ${table('effects')}`)
    const engine = engineAs()
    const outcome = await engine.execute(charge, request)
    expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_MISSING_RIGHT' } })
    const [row] = await database.rows<{ last_error: string; intent: unknown }>(
      'SELECT last_error, intent FROM pawl.idempotency_keys',
    )
    expect(grantsIn(row?.last_error ?? '')).toEqual([
      `GRANT INSERT, UPDATE, DELETE ON ${table('effects')} TO "${role}";`,
    ])
    expect(row?.intent).toMatchObject({ kind: 'called', result: { id: 'ch_1' } })
    await engine.close()
  })

  test.each(['execute', 'enqueue', 'inspect'] as const)(
    '%s under limits also needs those on usage, and what it has, it does not ask for',
    async (method) => {
      await grant(
        USAGE(),
        ...['idempotency_keys', 'effects', 'staged_jobs'].map((name) => `${ALL} ON ${table(name)}`),
      )
      const rate = { max: 10, perMs: 1_000 }
      const engine = engineAs({ limits: { newKeys: rate, lookups: rate, storedBytes: 10_000 } })
      const ask = (): Promise<unknown> =>
        method === 'inspect' ? engine.inspect('s', 'k') : engine[method](charge, request)
      const error = (await ask().catch((thrown: unknown) => thrown)) as Error
      expect(grantsIn(error.message)).toEqual([`GRANT ${ALL} ON ${table('scope_usage')} TO "${role}";`])
      await database.admin.query(grantsIn(error.message).join(' '))
      await expect(ask()).resolves.not.toMatchObject({ type: 'unavailable' })
      await engine.close()
    },
  )

  test('without limits, needs none on usage: it runs, replays, and its keys are reaped', async () => {
    await grant(
      USAGE(),
      ...['idempotency_keys', 'effects', 'staged_jobs'].map((name) => `${ALL} ON ${table(name)}`),
    )
    const engine = engineAs()
    expect(await engine.execute(charge, request)).toMatchObject({ type: 'completed' })
    await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp()`)
    const { reaper } = createBackground({ engine, completer: false, relay: [] })
    expect(await reaper?.runOnce()).toMatchObject({ deleted: 1 })
    // What another process has counted cannot be deleted without taking it off.
    await seedKey(database, { scope: 's', key: 'counted', status: 'finished' })
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp(), stored_bytes = 1000`,
    )
    await expect(reaper?.runOnce()).rejects.toThrow(`GRANT ${ALL} ON ${table('scope_usage')} TO "${role}";`)
    await engine.close()
  })

  test("that a phase's own statement needs gets the phase's own error", async () => {
    await grant(USAGE(), `${ALL} ON ALL TABLES IN SCHEMA "${database.schema}"`)
    await grant(`USAGE ON SCHEMA ${database.businessSchema}`)
    await database.rows(`CREATE TABLE ${database.businessSchema}.audit (id int, what text)`)
    const note = pipeline<null>({ name: 'note', version: 1 })
      .local('noted', async ({ tx }) => void (await tx.insertInto('audit').values({ what: 'x' }).execute()))
      .finish(() => respond(204))
    const engine = createEngine({ pool: asRole(), schema: database.schema, pipelines: [note] })
    expect(await engine.execute(note, request)).toMatchObject({
      type: 'retry_later',
      error: { code: '42501' },
    })
    await engine.close()
  })
})

test("row-level security, which no grant lifts, is reported in the server's words", async () => {
  await grant(USAGE(), `${ALL} ON ALL TABLES IN SCHEMA "${database.schema}"`)
  await database.rows('ALTER TABLE pawl.idempotency_keys ENABLE ROW LEVEL SECURITY')
  const engine = engineAs()
  await expect(engine.execute(charge, request)).rejects.toMatchObject({
    code: 'PAWL_MISSING_RIGHT',
    message: expect.stringMatching(/row-level security policy.*Check row-level security/),
  })
  await engine.close()
})

describe('background services', () => {
  test.each(['completer', 'relay', 'reaper'] as const)(
    '%s: a round fails with what to grant',
    async (name) => {
      const engine = engineAs()
      const background = createBackground({ engine, relay: { sink: { deliver: async () => [] } } })
      const service = name === 'relay' ? background.relays[0] : background[name]
      await expect(service?.runOnce()).rejects.toMatchObject({
        code: 'PAWL_MISSING_RIGHT',
        message: expect.stringContaining(`GRANT USAGE ON SCHEMA "${database.schema}" TO "${role}"`),
      })
      await engine.close()
    },
  )

  test('a started service reports the same to whoever listens', async () => {
    const failed = new Promise((resolve) => onTestFinished(subscribe('pawl:round_failed', resolve)))
    const engine = engineAs()
    const background = createBackground({ engine, completer: { pollMs: 60_000 }, reaper: false })
    background.start()
    expect(await failed).toMatchObject({
      service: 'completer',
      error: { code: 'PAWL_MISSING_RIGHT' },
    })
    await background.stop()
    await engine.close()
  })
})

/** What a person needs to intervene. */
const NEEDED = () => [
  `GRANT UPDATE, DELETE ON ${table('idempotency_keys')} TO "${role}";`,
  `GRANT UPDATE, DELETE ON ${table('effects')} TO "${role}";`,
  `GRANT UPDATE ON ${table('staged_jobs')} TO "${role}";`,
  `GRANT INSERT ON ${table('interventions')} TO "${role}";`,
  `GRANT INSERT, UPDATE ON ${table('cache_epoch')} TO "${role}";`,
]

describe('a person under a role that may only look', () => {
  beforeEach(async () => {
    await grant(USAGE(), `SELECT ON ALL TABLES IN SCHEMA "${database.schema}"`)
    await seedKey(database, { scope: 's', key: 'k', status: 'stuck' })
  })

  test('learns from the operator what to grant to whoever decides', async () => {
    const operator = createOperator({ pool: asRole(), schema: database.schema })
    await operator.status()
    const key = { scope: 's', key: 'k' }
    const because = { actor: 'anna', reason: 'mended' }
    const error = (await operator.unstick(key, because).catch((thrown: unknown) => thrown)) as Error
    expect(error).toMatchObject({ code: 'PAWL_MISSING_RIGHT' })
    expect(grantsIn(error.message)).toEqual(NEEDED())
    await database.admin.query(grantsIn(error.message).join(' '))
    await operator.unstick(key, because)
  })

  test('learns the same from the command line', async () => {
    const url = new URL(database.url)
    url.searchParams.set('options', `-c role=${role}`)
    const env = { DATABASE_URL: url.href, PAWL_ACTOR: 'anna' }
    const { exit, err } = await pawl(['unstick', '--schema', database.schema, 's', 'k', '--reason', 'x'], {
      env,
    })
    expect(exit).toBe(1)
    expect(grantsIn(err)).toEqual(NEEDED())
    expect(err).not.toMatch(/retry|unavailable|cannot be reached/)
  })

  test('learns it from the doctor, too, if the role may not even look', async () => {
    await database.admin.query(`REVOKE ALL ON ALL TABLES IN SCHEMA "${database.schema}" FROM ${role}`)
    const operator = createOperator({ pool: asRole(), schema: database.schema })
    await expect(operator.doctor()).rejects.toMatchObject({ code: 'PAWL_MISSING_RIGHT' })
  })
})
