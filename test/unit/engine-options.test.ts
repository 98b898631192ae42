import { createEngine, migrationSql, pawl, PawlError, respond } from '@pawl/core'
import pg from 'pg'
import { describe, expect, test } from 'vitest'

const { pipeline } = pawl<never>()
const ride = pipeline({ name: 'ride', version: 1 }).finish(() => respond(200))
const pool = new pg.Pool()

function refusal(options: unknown): { code: string; message: string } {
  const listeners = pool.listenerCount('error')
  try {
    createEngine(options as Parameters<typeof createEngine>[0])
  } catch (error) {
    expect(pool.listenerCount('error')).toBe(listeners)
    if (error instanceof PawlError) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('it was accepted')
}

const IDENTIFIER = "it takes a lower-case identifier of letters, digits and '_'"

describe('the error of createEngine names the option, what it got and what it takes', () => {
  test.each<[string, unknown, string]>([
    ['no options', undefined, 'createEngine: the options are undefined; they have to be an object'],
    [
      'an unknown option',
      { pool, pipelines: [ride], shcema: 'x' },
      "unknown option 'shcema'. The options are pool,",
    ],
    ['no pool', { pipelines: [ride] }, 'pool is undefined; it takes a pg.Pool'],
    ['a pool that is none', { pool: {}, pipelines: [ride] }, 'pool is an object; it takes a pg.Pool'],
    [
      'an address in place of a pool, whose password is not told',
      { pool: 'postgresql://me:secret@host/db', pipelines: [ride] },
      'pool is a string; it takes a pg.Pool',
    ],
    ['no pipelines', { pool }, 'pipelines is undefined; it takes a list of pipelines'],
    ['a pipeline without list', { pool, pipelines: ride }, 'pipelines is an object'],
    ['something else in the list', { pool, pipelines: [null] }, 'holds something that is not a pipeline'],
    [
      'a builder in the list',
      { pool, pipelines: [pipeline({ name: 'x', version: 1 })] },
      'A builder becomes one when you call its finish()',
    ],
    ['a version twice', { pool, pipelines: [ride, ride] }, "pipelines has 'ride' version 1 twice"],
    ['an empty namespace', { pool, pipelines: [ride], namespace: '' }, "namespace is ''"],
    ['a namespace that is no string', { pool, pipelines: [ride], namespace: 7 }, 'namespace is 7'],
    [
      'a secret that can be guessed, and is not told',
      { pool, pipelines: [ride], hashSecret: 'hunter2' },
      'hashSecret is a string of 7 characters; it takes a string of 32 characters or more',
    ],
    [
      'a redaction that is no function',
      { pool, pipelines: [ride], redact: 'Ann' },
      "redact is 'Ann'; it takes a function",
    ],
    [
      'a policy of keys that is none',
      { pool, pipelines: [ride], keyPolicy: null },
      'keyPolicy: the options are null',
    ],
    [
      'a key that has to be longer than a UUID',
      { pool, pipelines: [ride], keyPolicy: { minLength: 37 } },
      'keyPolicy: minLength is 37; it takes at most 36',
    ],
    [
      'an unknown action',
      { pool, pipelines: [ride], keyPolicy: { email: true } },
      "keyPolicy: email is true; it takes one of 'refuse', 'warn', 'allow'",
    ],
    [
      'an unknown kind of key',
      { pool, pipelines: [ride], keyPolicy: { iban: 'warn' } },
      "keyPolicy: unknown option 'iban'. The options are minLength, cardNumber, email, phoneNumber",
    ],
    [
      'a secret that is no string',
      { pool, pipelines: [ride], hashSecret: null },
      'hashSecret is of type object',
    ],
    [
      'protection that is a key, and is not told',
      { pool, pipelines: [ride], protect: Buffer.from('hunter2') },
      'protect takes what aesGcm returns, or another codec',
    ],
    [
      'a replica that is no pool',
      { pool, pipelines: [ride], replayFrom: 'postgresql://me:secret@host/db' },
      'replayFrom is a string; it takes a pg.Pool',
    ],
    [
      'the primary in place of its replica',
      { pool, pipelines: [ride], replayFrom: pool },
      'replayFrom is the same pool as pool; it takes a pool of connections to a replica',
    ],
    [
      'a lag of a replica that is not there',
      { pool, pipelines: [ride], replayMaxLagMs: 1_000 },
      'replayFrom is undefined; it takes a pg.Pool where replayMaxLagMs or replayTimeoutMs is given',
    ],
    [
      'a lag that no replica can keep',
      { pool, pipelines: [ride], replayFrom: new pg.Pool(), replayMaxLagMs: 99 },
      'replayMaxLagMs is 99; it takes a whole number of 100 or more',
    ],
    [
      'no time for a replica',
      { pool, pipelines: [ride], replayFrom: new pg.Pool(), replayTimeoutMs: 0 },
      'replayTimeoutMs is 0; it takes a whole number of 1 or more',
    ],
    [
      'something else after expiry',
      { pool, pipelines: [ride], afterExpiry: 'replay' },
      "afterExpiry is 'replay'; it takes one of 'refuse', 'run'",
    ],
    ['limits of nothing', { pool, pipelines: [ride], limits: { keys: 1 } }, "limits: unknown option 'keys'"],
    ['a limit of none', { pool, pipelines: [ride], limits: { unfinished: 0 } }, 'unfinished is 0'],
    [
      'a rate without a time',
      { pool, pipelines: [ride], limits: { newKeys: { max: 1 } } },
      'newKeys.perMs is undefined; it takes a whole number of 1 or more',
    ],
    [
      'a cache that cannot forget',
      { pool, pipelines: [ride], cache: { get() {}, set() {} } },
      'cache is an object; it takes a cache, such as redisCache({ client }) returns',
    ],
    ['a cache that is null', { pool, pipelines: [ride], cache: null }, 'cache is null; it takes a cache'],
    [
      'patience with a cache that is not there',
      { pool, pipelines: [ride], cacheTimeoutMs: 5 },
      'cache is undefined; it takes a cache, such as redisCache({ client }) returns, where cacheTimeoutMs is given',
    ],
    [
      'too much patience with a cache',
      { pool, pipelines: [ride], cache: { get() {}, set() {}, delete() {} }, cacheTimeoutMs: 1_001 },
      'cacheTimeoutMs is 1001; it takes at most 1000',
    ],
    ['plugins that are no list', { pool, pipelines: [ride], plugins: {} }, 'plugins is an object'],
    ['a stager that cannot stage', { pool, pipelines: [ride], stager: {} }, 'stager.stage is undefined'],
    ['a stager that is null', { pool, pipelines: [ride], stager: null }, 'stager.stage is undefined'],
    [
      'a breaker that is only on',
      { pool, pipelines: [ride], breaker: true },
      'breaker is true; it takes false or {',
    ],
    [
      'a breaker that never closes',
      { pool, pipelines: [ride], breaker: { failures: 0 } },
      'breaker: failures is 0',
    ],
    [
      'a breaker that never looks',
      { pool, pipelines: [ride], breaker: { probeMs: 0 } },
      'breaker: probeMs is 0',
    ],
    [
      'a breaker with another option',
      { pool, pipelines: [ride], breaker: { after: 5 } },
      "unknown option 'after'",
    ],
    ['no time to wait', { pool, pipelines: [ride], acquireTimeoutMs: 0 }, 'acquireTimeoutMs is 0'],
    [
      'a time no timer can wait',
      { pool, pipelines: [ride], acquireTimeoutMs: 2 ** 31 },
      'acquireTimeoutMs is 2147483648',
    ],
    [
      'an unknown default',
      { pool, pipelines: [ride], defaults: { lease: 1 } },
      "defaults: unknown option 'lease'",
    ],
    ['a wrong default', { pool, pipelines: [ride], defaults: { leaseMs: 1 } }, 'defaults: leaseMs is 1'],
    ['an unknown cap', { pool, pipelines: [ride], caps: { bytes: 1 } }, "caps: unknown option 'bytes'"],
    ['a cap of 0', { pool, pipelines: [ride], caps: { inputBytes: 0 } }, 'caps: inputBytes is 0'],
    ['a cap that is no number', { pool, pipelines: [ride], caps: { stateBytes: '1' } }, "stateBytes is '1'"],
    ['a strict that is neither', { pool, pipelines: [ride], strict: 'yes' }, "strict: the options are 'yes'"],
    [
      'an unknown option of strict',
      { pool, pipelines: [ride], strict: { deny: 1 } },
      "unknown option 'deny'",
    ],
    ['an allow that is no function', { pool, pipelines: [ride], strict: { allow: 1 } }, 'strict: allow is 1'],
  ])('%s', (_, options, message) => {
    const refused = refusal(options)
    expect(refused.code).toBe('PAWL_INVALID_OPTION')
    expect(refused.message).toMatch(/^createEngine: /)
    expect(refused.message).toContain(message)
  })

  test.each([
    '',
    'Pawl',
    '1st',
    'a-b',
    'a b',
    'a"b',
    'pawl"; DROP SCHEMA public CASCADE; --',
    'pawl"."x',
    'pg_catalog',
    'pg_temp',
    'x'.repeat(64),
    'schéma',
    'pawl\n',
    'pawl\0',
    7,
  ])('the schema %j', (schema) => {
    const refused = refusal({ pool, pipelines: [ride], schema })
    expect(refused.code).toBe('PAWL_INVALID_OPTION')
    expect(refused.message).toContain('createEngine: schema is ')
    expect(refused.message).toContain(IDENTIFIER)
    expect(() => migrationSql({ schema: schema as string })).toThrow(IDENTIFIER)
  })
})

const foreign = (windowMs: number) =>
  pipeline({ name: 'ride', version: 1 })
    .foreign('charged', { call: () => 1, windowMs })
    .finish(() => respond(200))

describe('settings that do not fit together are refused with an error that names the pipeline and phase', () => {
  test.each(['statementTimeoutMs', 'lockTimeoutMs', 'idleTimeoutMs'])('%s of a lease or more', (name) => {
    const message = `pipeline 'ride', phase 'finished': ${name} is 500; it takes less than leaseMs, which is 500.`
    const refused = refusal({ pool, pipelines: [ride], defaults: { leaseMs: 500, [name]: 500 } })
    expect(refused).toEqual({ code: 'PAWL_INVALID_PIPELINE', message })
    const short = pipeline({ name: 'ride', version: 1, leaseMs: 500 }).finish(() => respond(200))
    expect(refusal({ pool, pipelines: [short], defaults: { [name]: 500 } }).message).toBe(message)
  })

  test('a retention shorter than the window of a keyed call', () => {
    expect(refusal({ pool, pipelines: [foreign(7_200_001)], defaults: { retentionMs: 7_200_000 } })).toEqual({
      code: 'PAWL_INVALID_PIPELINE',
      message:
        "pipeline 'ride', phase 'charged': retentionMs is 7200000; it must not be shorter than windowMs, which is 7200001.",
    })
  })

  test('a retention of exactly the window is accepted, and a lease sets its time-outs', async () => {
    const defaults = { retentionMs: 7_200_000, leaseMs: 100 }
    await createEngine({ pool, pipelines: [foreign(7_200_000)], defaults }).close()
  })

  test('a retention of less than an hour causes a warning', async () => {
    const warned = new Promise<Error>((resolve) => {
      process.once('warning', resolve)
    })
    const engine = createEngine({ pool, pipelines: [foreign(1)], defaults: { retentionMs: 3_599_999 } })
    expect((await warned).message).toContain("pipeline 'ride': retentionMs is 3599999.")
    await engine.close()
  })
})

test('close checks its own option', async () => {
  const engine = createEngine({ pool, pipelines: [ride] })
  const untyped = engine as unknown as { close(options?: unknown): Promise<void> }
  await expect(untyped.close({ timeoutMs: -1 })).rejects.toThrow('close: timeoutMs is -1; it takes')
  await expect(untyped.close({ timeoutMs: 2 ** 31 })).rejects.toThrow(
    'close: timeoutMs is 2147483648; it takes',
  )
  await expect(untyped.close({ timeout: 1 })).rejects.toThrow("close: unknown option 'timeout'")
  await engine.close()
})
