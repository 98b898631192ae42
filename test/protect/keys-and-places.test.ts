import { randomUUID } from 'node:crypto'
import {
  aesGcm,
  createBackground,
  createOperator,
  type JsonValue,
  type Outcome,
  type Protection,
  respond,
} from '@pawl/core'
import type { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import {
  createEngine,
  KEY_2,
  protect,
  protectBoth,
  protectNext,
  pipeline,
  protectOther,
  SECRET,
  secretRide,
  type Way,
} from './secret-ride.js'

let database: TestDatabase
/** Of all engines: with one each, the server would run out of connections. */
let pool: Pool
beforeAll(async () => {
  database = await TestDatabase.create()
  pool = database.pool()
})
afterAll(() => database.drop())

function engineWith(protection: Protection | null) {
  const { schema } = database
  const given = protection === null ? {} : { protect: protection }
  const engine = createEngine({ pool, schema, pipelines: [secretRide], ...given })
  onTestFinished(() => engine.close())
  return engine
}

const operatorWith = (protection: Protection | null) =>
  createOperator({
    pool,
    schema: database.schema,
    ...(protection !== null && { protect: protection }),
  })

interface Named {
  readonly scope?: string
  readonly key: string
}

const send = (
  protection: Protection | null,
  { scope = 's', key }: Named,
  way: Way = 'finishes',
  secret: JsonValue = SECRET,
): Promise<Outcome> => engineWith(protection).execute(secretRide, { scope, key, input: { way, secret } })

const rowOf = async ({ scope = 's', key }: Named) => {
  const [row] = await database.rows<Record<string, unknown>>(
    'SELECT * FROM pawl.idempotency_keys WHERE scope = $1 AND key = $2',
    [scope, key],
  )
  return row ?? {}
}

const change = (set: string, { scope = 's', key }: Named, values: unknown[] = []) =>
  database.rows(`UPDATE pawl.idempotency_keys AS k SET ${set} WHERE scope = $1 AND key = $2`, [
    scope,
    key,
    ...values,
  ])

const refused = (code: string) => ({ type: 'refused', detail: expect.stringContaining(code) as string })

describe('a process that lacks the key', () => {
  // Shows I18.
  test.each([
    ['has none', null],
    ['has another one', protectOther],
    ['has another one of that id', aesGcm({ keys: { k1: KEY_2 } })],
  ])('refuses a retry, a finished one too, and changes nothing: it %s', async (_, without) => {
    for (const way of ['finishes', 'settle_fails', 'fails'] as const) {
      const named = { key: randomUUID() }
      await send(protect, named, way)
      const before = await rowOf(named)
      expect(await send(without, named, way)).toMatchObject({ type: 'refused' })
      expect(await rowOf(named)).toEqual(before)
      // Another request is told neither more nor less.
      expect(await send(without, named, way, 'another')).toMatchObject({ type: 'refused' })
    }
  })

  // Shows I18.
  test('runs a completer that neither marks its keys stuck nor is held up by them', async () => {
    const lost = { key: randomUUID() }
    await send(protect, lost, 'fails')
    const own = { key: randomUUID() }
    const enqueueing = engineWith(protectOther)
    await enqueueing.enqueue(secretRide, { scope: 's', key: own.key, input: { way: 'finishes', secret: 1 } })
    // Old enough, and tried often enough, to be given up.
    await change(`attempts = 99, created_at = k.created_at - interval '9 days', run_after = NULL`, lost)
    const before = await rowOf(lost)
    const { completer } = createBackground({ engine: enqueueing, reaper: false })
    expect(await completer?.runOnce()).toMatchObject({ stuck: 0 })
    expect(await rowOf(lost)).toEqual(before)
    expect(await rowOf(own)).toMatchObject({ status: 'finished' })
    expect(await send(protectBoth, lost, 'fails')).toMatchObject({ type: 'stuck' })
  })

  // Shows I18.
  test('runs a relay that gives a job back, in its turn and with its attempts', async () => {
    await database.rows('DELETE FROM pawl.staged_jobs')
    await send(protect, { key: randomUUID() })
    const got: JsonValue[] = []
    const relayOf = (protection: Protection) =>
      createBackground({
        engine: engineWith(protection),
        completer: false,
        reaper: false,
        relay: {
          sink: {
            deliver: (jobs) => {
              got.push(...jobs.map(({ payload }) => payload))
              return Promise.resolve(jobs.map(() => ({ type: 'delivered' })))
            },
          },
          maxAttempts: 2,
        },
      }).relays[0]
    for (let round = 0; round < 4; round++) {
      expect(await relayOf(protectOther)?.runOnce()).toMatchObject({ claimed: 1, failed: 1, dead: 0 })
      await database.rows('UPDATE pawl.staged_jobs SET run_after = clock_timestamp()')
    }
    expect(await database.rows('SELECT attempts, dead_at FROM pawl.staged_jobs')).toEqual([
      { attempts: 1, dead_at: null },
    ])
    expect(got).toEqual([])
    expect(await relayOf(protect)?.runOnce()).toMatchObject({ delivered: 1 })
    expect(got).toEqual([{ to: SECRET }])
  })

  test('shows its keys without their values, and says why', async () => {
    const named = { key: randomUUID() }
    await send(protect, named, 'settle_fails')
    const report = await operatorWith(null).show({ scope: 's', key: named.key })
    expect(report?.key).toMatchObject({
      recoveryPoint: 'noted',
      call: { phase: 'called', known: 'returned', result: null },
      input: null,
      state: {},
      lastError: null,
      sealed: expect.stringContaining("key 'k1'") as string,
    })
    expect((await operatorWith(null).list()).some(({ key }) => key === named.key)).toBe(true)
    expect(await engineWith(protectOther).inspect('s', named.key)).toMatchObject({ input: null })
  })

  test('does not lose a result that a person lets through unseen', async () => {
    const named = { key: randomUUID() }
    await send(protect, named, 'settle_fails')
    await change(`status = 'stuck', stuck_reason = 'unknown_outcome'`, named)
    const before = await rowOf(named)
    const of = { scope: 's', key: named.key }
    const because = { actor: 'a', reason: 'r' }
    expect(await operatorWith(null).unstick(of, because)).toMatchObject({
      type: 'refused',
      detail: expect.stringContaining('protected') as string,
    })
    expect(await rowOf(named)).toEqual(before)
    expect(await operatorWith(protect).unstick(of, because)).toMatchObject({
      key: { call: { result: { found: SECRET } } },
    })
  })

  test('answers keys with a response that stays readable for everybody', async () => {
    const named = { key: randomUUID() }
    await send(protect, named, 'unknown')
    await operatorWith(null).answer(
      { scope: 's', key: named.key },
      { actor: 'a', reason: 'r' },
      { status: 404 },
    )
    expect(await send(protect, named, 'unknown')).toMatchObject({
      type: 'replayed',
      response: { status: 404 },
    })
  })
})

describe('when keys are rotated', () => {
  test('requests go on between processes of either generation, and old ones replay', async () => {
    const named = { key: randomUUID() }
    await send(protectBoth, named, 'settle_fails')
    const { fingerprint } = await rowOf(named)
    expect(await send(protectNext, named, 'settle_fails')).toMatchObject({ type: 'retry_later' })
    expect(await send(protectBoth, named, 'settle_fails')).toMatchObject({ type: 'retry_later' })
    // A provider key is made from it.
    expect((await rowOf(named))['fingerprint']).toEqual(fingerprint)
    // The result was last sealed with the current key of the last holder; the input with that of the first.
    expect(await send(protectNext, named, 'settle_fails')).toMatchObject({ type: 'retry_later' })
    expect(await send(protect, named, 'settle_fails')).toMatchObject(refused('PAWL_KEY_MISSING'))
    const finished = { key: randomUUID() }
    await send(protect, finished)
    expect(await send(protectNext, finished)).toMatchObject({ type: 'replayed' })
    expect(await send(protectNext, finished, 'finishes', 'another')).toMatchObject({ type: 'mismatch' })
  })
})

describe('rows from before', () => {
  test('stay readable, match, and are protected from their next write on', async () => {
    const [finished, open] = [{ key: randomUUID() }, { key: randomUUID() }]
    const first = await send(null, finished)
    await send(null, open, 'settle_fails')
    const replayed = await send(protect, finished)
    expect(replayed).toMatchObject({ type: 'replayed', response: (first as { response: object }).response })
    expect(await send(protect, finished, 'finishes', 'another')).toMatchObject({ type: 'mismatch' })
    expect(await send(protect, open, 'settle_fails')).toMatchObject({ type: 'retry_later' })
    expect(await rowOf(open)).toMatchObject({
      fingerprint_version: 1,
      input: { secret: SECRET },
      intent: {
        kind: 'called',
        phase: 'called',
        sealed: expect.stringMatching(/^pawl:sealed:k1:/) as string,
      },
    })
  })
})

/** What a client may have seen in a table, and sends as its input. */
const sealedElsewhere = `pawl:sealed:k1:${Buffer.from(
  protect.seal(Buffer.from('"x"'), { scope: 's', row: 'r', column: 'input' }).bytes,
).toString('base64')}`

describe('values are as they were', () => {
  test.each([
    ['a NUL', 'a\u0000b'],
    ['half of a surrogate pair', 'a\ud800b'],
    ['one that looks sealed', 'pawl:sealed:k1:AAAA'],
    ['one that really was sealed, elsewhere', sealedElsewhere],
    ['an empty one', ''],
    ['a large one', 'x'.repeat(30_000)],
    ['a number', 1e21],
  ])('%s', async (_, value) => {
    for (const protection of [null, protect]) {
      const named = { key: randomUUID() }
      const outcome = await send(protection, named, 'finishes', value)
      expect(outcome).toMatchObject({ type: 'completed' })
      // Switched on, it reads what was written before; and its own.
      const again = await send(protect, named, 'finishes', value)
      expect(again).toMatchObject({ type: 'replayed', response: (outcome as { response: object }).response })
      expect((await engineWith(protect).inspect('s', named.key))?.input).toEqual({
        way: 'finishes',
        secret: value,
      })
    }
  })
})

test.each(['pawl:sealed:k1:AAAA', sealedElsewhere])(
  'a text that looks sealed is a text, as an input, a payload and an error, before protection is switched on',
  async (text) => {
    const echo = pipeline<string>({ name: 'echo', version: 1 })
      .local('failed', ({ input }) => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error -- whatever is thrown is recorded
        if (input === text) throw text
      })
      .finish(() => respond(204))
    const telling = pipeline<string>({ name: 'telling', version: 1 }).finish(async ({ input, stage }) => {
      await stage('tell', input)
      return respond(200, input)
    })
    const { schema } = database
    const engineOf = (given: { readonly protect?: Protection }) => {
      const engine = createEngine({ pool, schema, pipelines: [echo, telling], ...given })
      onTestFinished(() => engine.close())
      return engine
    }
    const request = { scope: 's', key: randomUUID(), input: text }
    await engineOf({}).execute(echo, request)
    const told = { ...request, key: randomUUID() }
    await engineOf({}).execute(telling, told)
    const engine = engineOf({ protect })
    expect(await engine.inspect('s', request.key)).toMatchObject({
      sealed: null,
      input: text,
      lastError: ` ${text}`,
    })
    expect(await engine.inspect('s', told.key)).toMatchObject({ sealed: null, input: text })
    const report = await operatorWith(protect).show({ scope: 's', key: told.key })
    expect(report?.jobs).toMatchObject([{ sealed: null, payload: text }])
    await database.rows('DELETE FROM pawl.staged_jobs')
  },
)

describe('a value opens only where it was sealed', () => {
  /** What a key's row was changed to by somebody who can write to the table. */
  const changes = [
    ['the input of another row', `input = (SELECT o.input FROM pawl.idempotency_keys AS o WHERE o.key = $3)`],
    ['the state of another row', `state = (SELECT o.state FROM pawl.idempotency_keys AS o WHERE o.key = $3)`],
    ['its own input in place of the state', 'state = k.input, attempts = k.attempts + 0 * length($3)'],
    [
      'the result of another row',
      `intent = (SELECT o.intent FROM pawl.idempotency_keys AS o WHERE o.key = $3)`,
    ],
    [
      'a flipped bit',
      `input = to_json(overlay((k.input #>> '{}') placing CASE WHEN substr(k.input #>> '{}', 40, 1) = 'A' THEN 'B' ELSE 'A' END from 40 for 1)), attempts = k.attempts + 0 * length($3)`,
    ],
    ['a cut value', `input = to_json(left(k.input #>> '{}', 60)), attempts = k.attempts + 0 * length($3)`],
    ['only the mark', `input = '"pawl:sealed:k1:"', attempts = k.attempts + 0 * length($3)`],
    ['not even a key id', `input = '"pawl:sealed:"', attempts = k.attempts + 0 * length($3)`],
    [
      'the id of another key',
      `input = to_json(replace(k.input #>> '{}', ':k1:', ':k2:')), attempts = k.attempts + 0 * length($3)`,
    ],
    ['another id of the row', `id = gen_random_uuid(), attempts = k.attempts + 0 * length($3)`],
  ] as const
  test.each(changes)('%s is refused, and nothing is run', async (_, set) => {
    const [named, other] = [{ key: randomUUID() }, { key: randomUUID() }]
    await send(protectBoth, named, 'settle_fails')
    await send(protectBoth, other, 'settle_fails')
    await change(set, named, [other.key])
    const before = await rowOf(named)
    expect(await send(protectBoth, named, 'settle_fails')).toMatchObject(refused('PAWL_SEALED'))
    expect(await rowOf(named)).toEqual(before)
    expect((await engineWith(protectBoth).inspect('s', named.key))?.sealed).toContain('does not open')
  })

  test.each([
    ['of another row', `(SELECT o.response_body FROM pawl.idempotency_keys AS o WHERE o.key = $3)`],
    [
      'with a flipped bit',
      `set_bit(k.response_body, 8 * 40 + 0 * length($3), 1 - get_bit(k.response_body, 8 * 40))`,
    ],
    ['cut', `substr(k.response_body, 1, 30 + 0 * length($3))`],
    ['emptied', `substr(k.response_body, 1, 0 * length($3))`],
  ])('a response %s is not replayed', async (_, body) => {
    const [named, other] = [{ key: randomUUID() }, { key: randomUUID() }]
    await send(protect, named)
    await send(protect, other)
    await change(`response_body = ${body}`, named, [other.key])
    expect(await send(protect, named)).toMatchObject(refused('PAWL_SEALED'))
  })

  test('a response whose row was given another key is not replayed under that', async () => {
    const [mine, theirs] = [{ key: randomUUID() }, { key: randomUUID() }]
    await send(protect, mine)
    const [own] = await database.rows<{ fingerprint: Buffer }>(
      'DELETE FROM pawl.idempotency_keys WHERE key = $1 RETURNING fingerprint',
      [mine.key],
    )
    await send(protect, theirs)
    await change('key = $3', theirs, [mine.key])
    expect(await send(protect, mine)).toMatchObject({ type: 'mismatch' })
    await change('fingerprint = $3', mine, [own?.fingerprint])
    expect(await send(protect, mine)).toMatchObject(refused('PAWL_SEALED'))
  })

  // Shows I17.
  test('a whole response moved to another scope is not replayed there', async () => {
    for (const protection of [protect, aesGcm({ keys: { k1: KEY_2 }, perScope: true })]) {
      const [mine, theirs] = [
        { scope: 'mine', key: randomUUID() },
        { scope: 'theirs', key: randomUUID() },
      ]
      await send(protection, mine)
      await send(protection, theirs)
      await change(
        `(response_headers, response_body) = (SELECT o.response_headers, o.response_body FROM pawl.idempotency_keys AS o WHERE o.key = $3)`,
        mine,
        [theirs.key],
      )
      expect(await send(protection, mine)).toMatchObject(refused('PAWL_SEALED'))
      expect(await send(protection, theirs)).toMatchObject({ type: 'replayed' })
    }
  })
})

test('two values that are the same are sealed differently', async () => {
  const [one, other] = [{ key: randomUUID() }, { key: randomUUID() }]
  await send(protect, one)
  await send(protect, other)
  expect((await rowOf(one))['input']).not.toEqual((await rowOf(other))['input'])
})
