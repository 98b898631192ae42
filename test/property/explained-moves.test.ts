import { randomUUID } from 'node:crypto'
import { createOperator, type NextMove } from '@pawl/core'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import {
  type Done,
  Explained,
  type Kind,
  KINDS,
  MAX_AGE_MS,
  MAX_ATTEMPTS,
  QUIET_MS,
  WINDOW_MS,
} from '../support/explained-pipelines.js'
import { assertProperty } from './support/assert-property.js'

// What `operator.next` says of a row is compared with what an engine then does with that row.

const explained = await Explained.create()
const { database } = explained
afterAll(() => explained.drop())
const operator = createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })

const POINTS = ['started', 'created', 'charged', 'noted', 'mailed'] as const
const PHASES = ['created', 'charged', 'noted', 'mailed'] as const
const HOUR_MS = 3_600_000

/** What is known of a call. Times are milliseconds from now. */
type Known =
  | { readonly kind: 'calling'; readonly deadlineInMs: number; readonly by: 'here' | 'elsewhere' | 'unknown' }
  | { readonly kind: 'called'; readonly said: boolean }
  | { readonly kind: 'not_made'; readonly agoMs: number }

/** A row as an engine, or a person, may have left it. */
interface Case {
  readonly kind: Kind
  readonly status: 'running' | 'stuck' | 'finished'
  readonly point: (typeof POINTS)[number]
  readonly call: { readonly phase: (typeof PHASES)[number]; readonly known: Known } | null
  readonly committedAgoMs: number
  readonly createdAgoMs: number
  readonly attempts: number
  readonly effectEpoch: number
  readonly leaseInMs: number | null
  readonly restsForMs: number | null
  readonly stuckReason: 'attempts_exhausted' | 'too_old' | 'unknown_outcome' | 'window_passed'
}

const ORDINARY: Case = {
  kind: 'keyed',
  status: 'running',
  point: 'created',
  call: null,
  committedAgoMs: 60_000,
  createdAgoMs: 2 * HOUR_MS,
  attempts: 1,
  effectEpoch: 0,
  leaseInMs: null,
  restsForMs: null,
  stuckReason: 'unknown_outcome',
}

// Everything is minutes away from where it changes what happens: the database's clock goes on between the two looks.
const knownOf: fc.Arbitrary<Known> = fc.oneof(
  fc.record({
    kind: fc.constant('calling' as const),
    deadlineInMs: fc.constantFrom(-2 * HOUR_MS, -QUIET_MS / 2, 600_000),
    by: fc.constantFrom('here' as const, 'elsewhere' as const, 'unknown' as const),
  }),
  fc.record({ kind: fc.constant('called' as const), said: fc.boolean() }),
  fc.record({ kind: fc.constant('not_made' as const), agoMs: fc.constantFrom(60_000, 2 * WINDOW_MS) }),
)
const cases: fc.Arbitrary<Case> = fc.record({
  kind: fc.constantFrom(...KINDS),
  status: fc.constantFrom('running', 'running', 'running', 'stuck', 'finished'),
  point: fc.constantFrom(...POINTS),
  call: fc.option(fc.record({ phase: fc.constantFrom(...PHASES), known: knownOf }), { freq: 4 }),
  committedAgoMs: fc.constantFrom(60_000, 2 * WINDOW_MS),
  createdAgoMs: fc.constantFrom(3 * HOUR_MS, 3 * HOUR_MS, MAX_AGE_MS + HOUR_MS),
  attempts: fc.constantFrom(0, 1, MAX_ATTEMPTS - 1, MAX_ATTEMPTS),
  effectEpoch: fc.constantFrom(0, 2),
  leaseInMs: fc.constantFrom(null, -60_000, 1_200_000),
  restsForMs: fc.constantFrom(null, -60_000, 600_000),
  stuckReason: fc.constantFrom('attempts_exhausted', 'too_old', 'unknown_outcome', 'window_passed'),
})

interface Row {
  readonly id: string
  readonly scope: string
  readonly key: string
}

async function write(of: Case): Promise<Row> {
  const now = Date.now()
  const [clock] = await database.rows<{ now: string; server: string }>(
    `SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now,
            floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::text AS server`,
  )
  const databaseNow = Math.floor(Number(clock?.now ?? now))
  const isFinished = of.status === 'finished'
  const point = isFinished ? 'finished' : of.point
  const trail = point === 'started' ? [] : [{ p: point, t: databaseNow - of.committedAgoMs, f: 1 }]
  const names = { scope: 'explained', key: randomUUID() }
  const [row] = await database.rows<{ id: string }>(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder,
       status, recovery_point, trail, intent, attempts, effect_epoch, stuck_reason, created_at, lease_until, run_after,
       response_status, response_headers, response_body, expires_at)
     VALUES ($1, $2, $3, 1, $4, sha256('x'), 1, '{}', gen_random_uuid(), $5, $6, $7, $8, $9, $10, $11,
       clock_timestamp() - $12 * interval '1 ms', clock_timestamp() + $13 * interval '1 ms',
       clock_timestamp() + $14 * interval '1 ms', $15, $16, $17, $18) RETURNING id`,
    [
      names.scope,
      names.key,
      of.kind,
      explained.pipelines[of.kind].definitionHash,
      of.status,
      point,
      JSON.stringify(trail),
      of.call === null || isFinished
        ? null
        : JSON.stringify(intentOf(of.call, databaseNow, clock?.server ?? '')),
      of.attempts,
      of.effectEpoch,
      of.status === 'stuck' ? of.stuckReason : null,
      of.createdAgoMs,
      of.status === 'running' ? of.leaseInMs : null,
      of.status === 'running' ? of.restsForMs : null,
      ...(isFinished
        ? [204, '{}', Buffer.alloc(0), new Date(databaseNow + HOUR_MS)]
        : [null, null, null, null]),
    ],
  )
  return { ...names, id: row?.id ?? '' }
}

function intentOf({ phase, known }: NonNullable<Case['call']>, now: number, server: string): object {
  switch (known.kind) {
    case 'calling': {
      const by = { here: { server }, elsewhere: { server: 'another' }, unknown: {} }[known.by]
      return { kind: 'calling', phase, deadlineMs: now + known.deadlineInMs, timeoutMs: 30_000, ...by }
    }
    case 'called':
      return { kind: 'called', phase, result: { of: phase }, ...(known.said && { said: true }) }
    case 'not_made':
      return { kind: 'not_made', phase, atMs: now - known.agoMs }
  }
}

async function moveOf({ id: keyId }: Row): Promise<NextMove> {
  const move = await operator.next({ keyId })
  if (move === null) throw new Error('The row that was just written is gone.')
  return move
}

/** What an engine would do first, if the move is true. Null where it would do nothing. */
function promised(move: NextMove): Done | null {
  switch (move.type) {
    case 'runs':
      return { did: 'run', phase: move.phase, providerKey: null }
    case 'settles':
      return { did: 'settle', phase: move.phase, providerKey: null }
    case 'calls':
      return { did: 'call', phase: move.phase, providerKey: move.providerKey }
    case 'asks':
      return { did: 'ask', phase: move.phase, providerKey: move.providerKey }
    case 'goes_on':
      return { did: 'go_on', phase: move.phase, providerKey: null }
    case 'replays':
    case 'waits':
    case 'needs_its_client':
    case 'needs_a_person':
    case 'unknown':
      return null
  }
}

/** Resumes the key as a completer would, and compares. */
async function expectTrue(move: NextMove, row: Row): Promise<void> {
  const { outcome, done } = await explained.resume(row, true)
  expect(done[0] ?? null).toEqual(promised(move))
  switch (move.type) {
    case 'asks': {
      // The provider says that it is not there.
      const calls = done.filter(({ did, phase }) => did === 'call' && phase === move.phase)
      expect(calls).toHaveLength(move.callsAfterMs === 0 ? 1 : 0)
      break
    }
    case 'replays':
      expect(outcome.type).toBe('replayed')
      break
    case 'waits':
      expect(outcome.type).toBe('in_flight')
      break
    case 'needs_a_person':
      expect(outcome).toMatchObject({ type: 'stuck', reason: move.reason })
      break
    default:
      expect(move.type).not.toBe('unknown')
  }
  if (move.callsProvider) expect(done[0]?.did).toBe('call')
}

async function check(of: Case): Promise<NextMove> {
  const row = await write(of)
  const move = await moveOf(row)
  expect(move.sentence).toMatch(/^[A-Z].*\.$/)
  expect(move.because).toMatch(/^[A-Z].*\.$/)
  if (move.type === 'waits') expect(move.inMs).toBeGreaterThan(500_000)
  await expectTrue(move, row)
  await checkAfterwards(move, row)
  return move
}

/** What is said of the time after the wait, or after a person has unstuck it. */
async function checkAfterwards(move: NextMove, row: Row): Promise<void> {
  if (move.type === 'waits') {
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = lease_until - $2 * interval '1 ms', run_after = run_after - $2 * interval '1 ms' WHERE id = $1`,
      [row.id, move.inMs],
    )
    const next = await moveOf(row)
    expect(kindOf(next)).toEqual(kindOf(move.then))
  }
  if (move.type === 'needs_a_person' && move.isStuck) {
    const unstuck = await operator.unstick({ keyId: row.id }, { actor: 'anna', reason: 'to compare' })
    expect(unstuck.type).toBe(move.then === null ? 'refused' : 'done')
    if (move.then === null) return
    expect(kindOf(await moveOf(row))).toEqual(kindOf(move.then))
    await expectTrue(move.then, row)
  }
}

/** Without what depends on the moment. */
const kindOf = (move: NextMove): unknown => ({ type: move.type, promised: promised(move) })

test('what is said of arbitrary rows is what an engine does', async () => {
  await assertProperty(fc.asyncProperty(cases, async (of) => void (await check(of))))
})

const long = 2 * WINDOW_MS
const calling = (by: 'here' | 'elsewhere' | 'unknown', deadlineInMs = -2 * HOUR_MS): Case['call'] => ({
  phase: 'charged',
  known: { kind: 'calling', deadlineInMs, by },
})
const called = (said: boolean): Case['call'] => ({ phase: 'charged', known: { kind: 'called', said } })
const notMade = (agoMs: number): Case['call'] => ({ phase: 'charged', known: { kind: 'not_made', agoMs } })

describe('of a row', () => {
  test.each<[string, Partial<Case>, Partial<Extract<NextMove, { type: string }>>]>([
    ['at its start', { point: 'started' }, { type: 'runs', phase: 'created' }],
    [
      'before a phase with a condition',
      { point: 'charged' },
      { type: 'runs', phase: 'noted', mayBeSkipped: true },
    ],
    ['before its end', { point: 'mailed' }, { type: 'runs', phase: 'finished' }],
    ['before a keyed call', {}, { type: 'calls', phase: 'charged', again: true, effectName: 'charge' }],
    [
      'whose keyed call was not made',
      { call: notMade(0), committedAgoMs: long },
      { type: 'calls', again: false },
    ],
    [
      'whose window is over',
      { committedAgoMs: long },
      { type: 'needs_a_person', reason: 'window_passed', isStuck: false },
    ],
    [
      'whose window is over, and that can be asked about',
      { kind: 'keyed_and_asked', committedAgoMs: long },
      { type: 'asks', callsAfterMs: 0 },
    ],
    [
      'whose call has returned',
      { call: called(false), committedAgoMs: long },
      { type: 'settles', phase: 'charged' },
    ],
    ['whose call a person has answered for', { call: called(true) }, { type: 'settles', phase: 'charged' }],
    ['before a call that can be asked about', { kind: 'queryable' }, { type: 'calls', again: false }],
    [
      'whose call is to be asked about',
      { kind: 'queryable', call: calling('here') },
      { type: 'asks', callsAfterMs: 0 },
    ],
    [
      'whose call was declared by another clock',
      { kind: 'queryable', call: calling('elsewhere') },
      { type: 'asks', callsAfterMs: null },
    ],
    ['before a call that may be made once', { kind: 'at_most_once' }, { type: 'calls', again: false }],
    [
      'whose call may have been made once',
      { kind: 'at_most_once', call: calling('here') },
      { type: 'needs_a_person', reason: 'unknown_outcome', isStuck: false },
    ],
    [
      'that goes on without its call',
      { kind: 'expendable', call: calling('here') },
      { type: 'goes_on', phase: 'charged' },
    ],
    [
      'that went back to before its call',
      { point: 'started', call: calling('here') },
      { type: 'needs_a_person' },
    ],
    [
      'that has failed too often',
      { attempts: MAX_ATTEMPTS },
      { type: 'needs_a_person', reason: 'attempts_exhausted' },
    ],
    ['that is too old', { createdAgoMs: 2 * MAX_AGE_MS }, { type: 'needs_a_person', reason: 'too_old' }],
    ['that somebody holds', { leaseInMs: 600_000 }, { type: 'waits', for: 'holder' }],
    ['that rests', { restsForMs: 600_000 }, { type: 'waits', for: 'back_off' }],
    ['that is finished', { status: 'finished' }, { type: 'replays' }],
    [
      'that is stuck over a call',
      { status: 'stuck', call: calling('here') },
      { type: 'needs_a_person', isStuck: true, then: null },
    ],
    [
      'that is stuck by its age',
      { status: 'stuck', stuckReason: 'too_old', createdAgoMs: 2 * MAX_AGE_MS },
      { type: 'needs_a_person', isStuck: true },
    ],
  ])('%s, what is said is what an engine does', async (_what, changes, move) => {
    expect(await check({ ...ORDINARY, ...changes })).toMatchObject(move)
  })
})

test('where a call may not be repeated yet, it is said how long that takes', async () => {
  const call = calling('here', 600_000)
  const move = await moveOf(await write({ ...ORDINARY, kind: 'queryable', call }))
  expect(move).toMatchObject({ type: 'asks', phase: 'charged', callsProvider: false })
  const { callsAfterMs } = move as Extract<NextMove, { type: 'asks' }>
  expect(callsAfterMs).toBeGreaterThan(600_000)
  expect(callsAfterMs).toBeLessThanOrEqual(600_000 + QUIET_MS)
})
