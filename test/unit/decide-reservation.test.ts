import { pawl, PawlError, respond } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { type Asking, decideReservation } from '../../packages/core/src/request/decide-reservation.js'
import { definitionOf, type UpgradeFrom } from '../../packages/core/src/pipeline/pipeline.js'
import { Registry } from '../../packages/core/src/pipeline/registry.js'
import {
  FingerprintSecrets,
  RequestFingerprint,
} from '../../packages/core/src/request/request-fingerprint.js'
import { ResolvedSettings } from '../../packages/core/src/pipeline/resolved-settings.js'
import { CLOCK_WENT_BACK_MS, DEFAULT_LEASE_MS, LEASE_SLACK_MS } from '../../packages/core/src/limits.js'
import type { KeyRow } from '../../packages/core/src/storage/keys/key-row.js'

const { pipeline } = pawl<never>()
const ride = (version = 1, upgradesFrom: UpgradeFrom[] = []) =>
  pipeline({ name: 'ride', version, upgradesFrom, maxAttempts: 3, maxAgeMs: 10_000 })
    .local('created', () => {})
    .foreign('charged', { call: () => 1 })
    .finish(() => respond(200))

const NOW = 1_000_000
const FINGERPRINT = Buffer.alloc(32, 'a')
const OTHER_FINGERPRINT = Buffer.alloc(32, 'b').toString('hex')
const secrets = new FingerprintSecrets(null, null)
const fingerprint = new RequestFingerprint(secrets, FINGERPRINT, false, { scope: 's', key: 'k' })
const request = { pipeline: 'ride', kind: 'pipeline', fingerprint } as const
const asking: Asking = { holder: 'us', request, onlyDue: false }
const byId: Asking = { holder: 'us', request: null, onlyDue: false }
const response = { status: 201, headers: {}, body: Buffer.from('{}') }

/** A key that has been unattended at `created` for a moment, with nothing unusual about it. */
const row: KeyRow = {
  id: 'id',
  scope: 's',
  key: 'k',
  pipeline: 'ride',
  kind: 'pipeline',
  version: 1,
  definitionHash: ride().definitionHash,
  fingerprint: FINGERPRINT.toString('hex'),
  fingerprintVersion: 1,
  inputJson: '{}',
  stateJson: '{"seats":2}',
  recoveryPoint: 'created',
  status: 'running',
  stuckReason: null,
  fence: 4,
  holder: 'them',
  revision: 1,
  storedBytes: 0,
  traceparent: null,
  leaseUntilMs: NOW,
  attempts: 1,
  retries: 0,
  runAfterMs: null,
  intent: null,
  effectEpoch: 0,
  undoneBefore: 0,
  lastError: null,
  trail: [],
  response: null,
  unstuckMs: null,
  createdMs: NOW - 5_000,
  updatedMs: NOW - 1_000,
  expiresMs: null,
  nowMs: NOW,
  server: 'here',
  sealed: null,
}

function decide(changes: Partial<KeyRow>, by = asking, pipelines = [ride()]) {
  const registry = new Registry(pipelines)
  return decideReservation(
    { ...row, ...changes },
    by,
    registry,
    new ResolvedSettings({}, registry.definitions),
  )
}

const finished: Partial<KeyRow> = {
  status: 'finished',
  recoveryPoint: 'finished',
  leaseUntilMs: null,
  response,
  expiresMs: NOW + 7,
}
const stuck: Partial<KeyRow> = { status: 'stuck', stuckReason: 'too_old', leaseUntilMs: null }
const leased: Partial<KeyRow> = { leaseUntilMs: NOW + 1 }

describe('first, another request is a mismatch, whatever the state', () => {
  test.each([
    ['running', {}],
    ['leased', leased],
    ['finished', finished],
    ['stuck', stuck],
    ['not registered', { version: 9 }],
    ['worn out', { attempts: 99 }],
  ])('%s', (_, changes) => {
    expect(decide({ ...changes, fingerprint: OTHER_FINGERPRINT })).toEqual({
      type: 'mismatch',
      differs: 'request',
    })
    expect(decide({ ...changes, pipeline: 'other' })).toEqual({ type: 'mismatch', differs: 'pipeline' })
    expect(decide({ ...changes, kind: 'atomic' })).toEqual({ type: 'mismatch', differs: 'pipeline' })
  })

  test('unless the key is asked for by its id, without a request to compare', () => {
    expect(decide({ fingerprint: OTHER_FINGERPRINT }, byId).type).toBe('take_over')
  })
})

describe('second, a finished key replays', () => {
  const replay = { type: 'replay', response, expiresMs: NOW + 7 }
  test('its response, even if it is asked for by id', () => {
    expect(decide(finished)).toEqual(replay)
    expect(decide(finished, byId)).toEqual(replay)
  })
  test('its response, whatever version or definition it ran under', () => {
    expect(decide({ ...finished, version: 9 })).toEqual(replay)
    expect(decide({ ...finished, definitionHash: 'other' })).toEqual(replay)
  })
  test('its response even after its expiry, until it is deleted', () => {
    expect(decide({ ...finished, expiresMs: NOW - 9 })).toMatchObject({ type: 'replay', expiresMs: NOW - 9 })
  })
})

describe('third, a key that may not run here is left alone', () => {
  test('it is reported as stuck before its version is checked', () => {
    expect(decide(stuck)).toEqual({ type: 'stuck', reason: 'too_old' })
    expect(decide({ ...stuck, version: 9 })).toEqual({ type: 'stuck', reason: 'too_old' })
  })
  test.each([
    ['another version', { version: 9 }, 'version 9 is not registered here'],
    ['another definition', { definitionHash: 'x' }, 'version 1 is registered with another definition'],
    ['another kind of fingerprint', { fingerprintVersion: 3 }, 'fingerprint version 3 is not known here'],
  ])('%s is refused, even while somebody runs it', (_, changes, detail) => {
    expect(decide({ ...changes, ...leased })).toEqual({
      type: 'refuse',
      detail: expect.stringContaining(detail),
    })
  })
  test('a finished key whose fingerprint cannot be compared is not replayed', () => {
    expect(decide({ ...finished, fingerprintVersion: 3 }).type).toBe('refuse')
  })
  test('another pipeline, asked for by id, is refused', () => {
    expect(decide({ pipeline: 'other' }, byId).type).toBe('refuse')
  })
})

describe('fourth, a live lease is another holder', () => {
  test('until its last millisecond on the clock of the database', () => {
    expect(decide({ leaseUntilMs: NOW + 1 })).toEqual({ type: 'in_flight', leaseLeftMs: 1 })
    // A lease may have any length that a deployment grants. If the clock has gone back since, nobody waits for it.
    const longestMs = DEFAULT_LEASE_MS + LEASE_SLACK_MS
    const updatedMs = NOW + CLOCK_WENT_BACK_MS + 1
    expect(decide({ leaseUntilMs: NOW + longestMs, updatedMs }).type).toBe('in_flight')
    expect(decide({ leaseUntilMs: NOW + longestMs + 1, updatedMs }).type).toBe('take_over')
    expect(decide({ leaseUntilMs: NOW + longestMs + 1, updatedMs: updatedMs - 1 }).type).toBe('in_flight')
    expect(decide({ leaseUntilMs: NOW }).type).toBe('take_over')
    expect(decide({ leaseUntilMs: null }).type).toBe('take_over')
  })
  test('and that is checked before its caps', () => {
    expect(decide({ ...leased, attempts: 99, createdMs: 0 }).type).toBe('in_flight')
  })
  test('unless we are the holder and the answer to us was lost', () => {
    expect(decide({ ...leased, holder: 'us' })).toMatchObject({ type: 'ours' })
    // Not with values that cannot be opened: they would be taken for empty.
    const sealed = new PawlError('PAWL_KEY_MISSING', 'it is away')
    expect(decide({ ...leased, holder: 'us', sealed })).toMatchObject({ type: 'in_flight' })
  })
})

describe('fifth, an unattended key', () => {
  test('is taken over as it is', () => {
    const intent = { kind: 'called', phase: 'charged', result: 1 } as const
    const pipelines = [ride()]
    expect(decide({ intent }, asking, pipelines)).toEqual({
      type: 'take_over',
      definition: pipelines[0]?.[definitionOf],
      at: { recoveryPoint: 'created', intent, effectEpoch: 0, stateJson: null },
    })
  })
  test('is given up at its caps', () => {
    expect(decide({ attempts: 2 }).type).toBe('take_over')
    expect(decide({ attempts: 3 })).toMatchObject({ type: 'mark_stuck', reason: 'attempts_exhausted' })
    expect(decide({ createdMs: NOW - 9_999 }).type).toBe('take_over')
    expect(decide({ createdMs: NOW - 10_000 })).toMatchObject({ type: 'mark_stuck', reason: 'too_old' })
  })
  test('is taken over before its run_after, which holds back automatic attempts and not clients', () => {
    expect(decide({ runAfterMs: NOW + 9_000 }).type).toBe('take_over')
  })
})

const renameSeats = ({ seats }: { readonly seats?: unknown }) => ({ places: Number(seats) })

const upgraded = (upgrade: Omit<UpgradeFrom, 'version'>, changes: Partial<KeyRow> = {}) =>
  decide(changes, asking, [ride(2, [{ version: 1, ...upgrade }])])

describe('an older version that is not registered', () => {
  test('goes on under the version that says how to map its points, intent and state', () => {
    const intent = { kind: 'calling', phase: 'paid', deadlineMs: 5 } as const
    const points = { made: 'created', paid: 'charged' }
    expect(upgraded({ points, state: renameSeats }, { recoveryPoint: 'made', intent })).toMatchObject({
      type: 'take_over',
      definition: { version: 2 },
      at: { recoveryPoint: 'created', intent: { ...intent, phase: 'charged' }, stateJson: '{"places":2}' },
    })
  })
  test('keeps what the upgrade does not mention', () => {
    expect(upgraded({})).toMatchObject({ at: { recoveryPoint: 'created', intent: null, stateJson: null } })
  })
  test('keeps a point whose name is a member of every object', () => {
    const odd = pipeline({ name: 'ride', version: 2, upgradesFrom: [{ version: 1, points: {} }] })
      .local('constructor', () => {})
      .finish(() => respond(200))
    expect(decide({ recoveryPoint: 'constructor' }, asking, [odd])).toMatchObject({
      at: { recoveryPoint: 'constructor' },
    })
  })
  test.each([
    ['a point', { recoveryPoint: 'made' }, 'made'],
    ['the phase of a call', { intent: { kind: 'called', phase: 'paid', result: 1 } }, 'paid'],
  ] as [string, Partial<KeyRow>, string][])('is refused where %s has no place', (_, changes, point) => {
    const detail = `upgradesFrom version 1 does not say where '${point}' is now`
    expect(upgraded({ points: {} }, changes)).toEqual({ type: 'refuse', detail })
  })
  test.each([
    ['throws', () => JSON.parse('{') as never],
    ['gives no state', () => undefined as never],
  ])('is refused if the state() of its upgrade %s', (_, state) => {
    expect(upgraded({ state }).type).toBe('refuse')
  })
  test('says what that threw, without secrets', () => {
    const asked = { state: () => JSON.parse('ann@example.com') as never }
    expect(upgraded(asked)).toMatchObject({ detail: expect.stringContaining('[e-mail]') as string })
  })
  test('is refused if no version upgrades from it', () => {
    expect(decide({}, asking, [ride(2)]).type).toBe('refuse')
  })
})
