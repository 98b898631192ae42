import { randomUUID } from 'node:crypto'
import { absent, createBackground, respond } from '@pawl/core'
import { executeAtomic } from '@pawl/core/internal'
import { describe, expect, onTestFinished, test } from 'vitest'
import { definitionOf } from '../../packages/core/src/pipeline/pipeline.js'
import { Registry } from '../../packages/core/src/pipeline/registry.js'
import { ResolvedSettings } from '../../packages/core/src/pipeline/resolved-settings.js'
import { decideReservation } from '../../packages/core/src/request/decide-reservation.js'
import { nextStep } from '../../packages/core/src/run/next-step.js'
import type { Intent, KeyRow } from '../../packages/core/src/storage/keys/key-row.js'
import { dieAt } from '../support/die-at.js'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { reference } from './operations-pages.js'

const DAY_MS = 86_400_000

const call = () => ({ id: 'ch' })
const calling = (deadlineMs: number): Intent => ({
  kind: 'calling',
  phase: 'charged',
  deadlineMs,
  server: 'here',
})

describe('the table of who decides', () => {
  const NOW = 10 * DAY_MS
  const WINDOW_MS = 1_000
  const QUIET_MS = 500
  const AGE_MS = 60_000
  const PHASES = {
    keyed: { call, windowMs: WINDOW_MS },
    'keyed and reconcile': { call, windowMs: WINDOW_MS, reconcile: () => absent() },
    queryable: { call, guarantee: 'queryable', quietForMs: QUIET_MS, reconcile: () => absent() },
    at_most_once: { call, guarantee: 'at_most_once' },
    'at_most_once and whenUnknown': { call, guarantee: 'at_most_once', whenUnknown: () => ({}) },
  } as const
  const rideWith = (kind: keyof typeof PHASES) =>
    pipeline<null>({ name: 'ride', version: 1, maxAttempts: 3, maxAgeMs: AGE_MS })
      .local('created', () => undefined)
      .foreign('charged', PHASES[kind])
      .finish(() => respond(200))

  const called: Intent = { kind: 'called', phase: 'charged', result: { id: 'ch' } }
  const notMade: Intent = { kind: 'not_made', phase: 'charged', atMs: NOW }

  /** A key that nobody holds any more, at `created`, committed a moment ago. */
  function rowOf(kind: keyof typeof PHASES, changes: Partial<KeyRow> & { committedAgoMs?: number }): KeyRow {
    const { committedAgoMs = 0, ...columns } = changes
    const holder = randomUUID()
    return {
      id: 'id',
      scope: 's',
      key: 'k',
      pipeline: 'ride',
      kind: 'pipeline',
      version: 1,
      definitionHash: rideWith(kind).definitionHash,
      fingerprint: 'aa',
      fingerprintVersion: 1,
      inputJson: 'null',
      stateJson: '{}',
      recoveryPoint: 'created',
      status: 'running',
      stuckReason: null,
      fence: 1,
      holder,
      revision: 1,
      storedBytes: 0,
      traceparent: null,
      leaseUntilMs: NOW - 1,
      attempts: 1,
      retries: 0,
      runAfterMs: null,
      intent: null,
      effectEpoch: 0,
      undoneBefore: 0,
      lastError: null,
      response: null,
      unstuckMs: null,
      trail: [
        { point: 'created', atMs: NOW - committedAgoMs, fence: 1, skipped: false, outcomeUnknown: false },
      ],
      createdMs: NOW - committedAgoMs,
      updatedMs: NOW - committedAgoMs,
      expiresMs: null,
      nowMs: NOW,
      server: 'here',
      sealed: null,
      ...columns,
    }
  }

  /** Decides as the completer's resume does: may the key be taken over, and what comes next? */
  function decided(
    kind: keyof typeof PHASES,
    changes: Partial<KeyRow> & { committedAgoMs?: number },
  ): Decided {
    const ride = rideWith(kind)
    const registry = new Registry([ride])
    const row = rowOf(kind, changes)
    const settings = new ResolvedSettings({}, registry.definitions)
    const decision = decideReservation(
      row,
      { holder: 'completer', request: null, onlyDue: true },
      registry,
      settings,
    )
    switch (decision.type) {
      case 'take_over': {
        const step = nextStep(ride[definitionOf], { ...row, ...decision.at }, NOW)
        if (step.do === 'mark_stuck') return { who: 'a person', how: `\`${step.reason}\`` }
        if (step.do === 'stop_at_call') return { who: 'a person', how: '`unknown_outcome`' }
        return { who: 'itself', how: HOW[step.do] }
      }
      case 'mark_stuck':
      case 'stuck':
        return { who: 'a person', how: `\`${decision.reason}\`` }
      case 'refuse':
        return { who: 'a person', how: 'not registered' }
      case 'in_flight':
        return { who: 'nobody', how: 'lease' }
      case 'mismatch':
      case 'replay':
      case 'ours':
        throw new Error(`no row of the table is about ${decision.type}`)
    }
  }

  interface Decided {
    readonly who: 'itself' | 'a person' | 'nobody'
    /** Words that the row's last column has. */
    readonly how: string
  }
  const HOW = {
    run_local: 'runs',
    finish: 'runs',
    call: 'calls',
    settle: 'settles',
    reconcile: 'asks',
    go_on: 'goes on',
  } as const

  const past = { committedAgoMs: WINDOW_MS + 1 }
  const SITUATIONS: Record<string, () => Decided | Promise<Decided>> = {
    'a local phase or the finish was cut off': () =>
      decided('keyed', { recoveryPoint: 'started', trail: [] }),
    'a call’s result is known, not yet settled': () => decided('at_most_once', { intent: called }),
    '`keyed`, within `windowMs`': () => decided('keyed', {}),
    '`keyed`, past it, with `reconcile`': () => decided('keyed and reconcile', past),
    '`keyed`, past it, without': () => decided('keyed', past),
    '`queryable`, call not declared': () => decided('queryable', {}),
    '`queryable`, declared, before its quiet time': () => decided('queryable', { intent: calling(NOW) }),
    '`queryable`, declared, after it': () => decided('queryable', { intent: calling(NOW - QUIET_MS) }),
    '`at_most_once`, call not declared': () => decided('at_most_once', {}),
    '`at_most_once`, declared': () => decided('at_most_once', { intent: calling(NOW) }),
    'a call of a later phase is on record': () =>
      decided('at_most_once', { recoveryPoint: 'started', trail: [], intent: calling(NOW) }),
    '`at_most_once`, declared, with `whenUnknown`': () =>
      decided('at_most_once and whenUnknown', { intent: calling(NOW) }),
    'an exception or a crash, below `maxAttempts`': () => decided('keyed', { attempts: 2 }),
    'an exception or a crash, at `maxAttempts`': () => decided('keyed', { attempts: 3 }),
    'an orderly retry, however many': () => decided('keyed', { attempts: 0, retries: 1_000 }),
    'older than `maxAgeMs`': () => decided('keyed', { createdMs: NOW - AGE_MS }),
    'version or definition not registered': () => decided('keyed', { version: 9 }),
    'somebody’s lease runs': () => decided('keyed', { leaseUntilMs: NOW + 1 }),
    'stuck already': () =>
      decided('keyed', { status: 'stuck', stuckReason: 'unknown_outcome', leaseUntilMs: null }),
    'unstuck with `--not-executed`': () => decided('at_most_once', { intent: notMade, unstuckMs: NOW }),
    'unstuck with `--result`': () => decided('at_most_once', { intent: called, unstuckMs: NOW, ...past }),
    'a crashed atomic handler': atomicHandler,
  }

  /** No pure function decides here: a statement of the completer deletes such keys. */
  async function atomicHandler(): Promise<Decided> {
    const database = await TestDatabase.create()
    onTestFinished(() => database.drop())
    const handler = pipeline<null>({ name: 'atomic.test', version: 1, maxAgeMs: AGE_MS }).finish(() =>
      respond(204),
    )
    await dieAt(database, { pipelines: [] }, 'finished/finish_key#1:before', (doomed) =>
      executeAtomic(doomed, handler, { scope: 's', key: 'crashed', input: null }),
    )
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [] })
    // So that the engine knows the handler, as a route makes it.
    await executeAtomic(engine, handler, { scope: 's', key: 'other', input: null })
    const { completer } = createBackground({ engine, reaper: false })
    expect(await completer?.runOnce()).toMatchObject({ found: 0, forgotten: 0 })
    await database.rows(`UPDATE pawl.idempotency_keys SET created_at = created_at - interval '1 hour'`)
    const counts = await completer?.runOnce()
    await engine.close()
    return counts?.forgotten === 1 ? { who: 'itself', how: 'deletes' } : { who: 'nobody', how: '' }
  }

  /** The rows of the table, by their first column. */
  const rows = new Map(
    (reference.split('\n## Who decides\n')[1]?.split('\n## ')[0] ?? '')
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(2)
      .map((line) =>
        line
          .slice(2, -2)
          .split(' | ')
          .map((cell) => cell.trim()),
      )
      .map(([situation = '', ...cells]) => [situation, cells]),
  )

  test('has a row for every situation that is tried here, and no other', () => {
    expect([...rows.keys()]).toEqual(Object.keys(SITUATIONS))
  })

  test.each(Object.entries(SITUATIONS))('is right: %s', async (situation, decide) => {
    const [who, how] = rows.get(situation) ?? []
    const truth = await decide()
    expect(who).toBe(truth.who)
    expect(how).toContain(truth.how)
  })
})
