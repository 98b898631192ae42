import { describe, expect, test } from 'vitest'
import type { History, PipelineShape } from '../../packages/crash-kit/src/history.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import type { HistoryBuilder } from './history-builder.js'
import { begun, cleanRide, crashedRide, RIDES, ridesWith } from './ride-histories.js'

/** Returns what the rule reports about the story. */
function broken(rule: string, story: HistoryBuilder, shape: PipelineShape = RIDES): string[] {
  return judge(story.build(), shape, null)
    .filter((violation) => violation.rule === rule)
    .map(({ detail }) => detail)
}

const rulesBroken = (history: History, shape: PipelineShape): string[] =>
  judge(history, shape, null).map(({ rule }) => rule)

const PHASE = 'charge_created'
const ONCE = ridesWith('at_most_once')
const QUERYABLE = ridesWith('queryable')

const sentAgain = (story: HistoryBuilder) => story.reserve('retry').request('retry', PHASE)

/** The call is declared, and made. */
function declared(): HistoryBuilder {
  const { story } = begun()
  story.write('client', { intent: { kind: 'calling', phase: PHASE } })
  return story.call('client', PHASE).request('client', PHASE)
}

const calledAgain = (story: HistoryBuilder) =>
  story.takeOver('retry').call('retry', PHASE, { execution: 2 }).request('retry', PHASE)

describe('I2: one effect', () => {
  test('holds for a repetition that the provider recognised, and for queries', () => {
    expect(broken('I2', crashedRide())).toEqual([])
    const asked = cleanRide().request('retry', PHASE, { method: 'GET', executed: false })
    expect(broken('I2', asked, ONCE)).toEqual([])
  })

  test.each(['keyed', 'queryable', 'at_most_once'] as const)(
    'a second effect of a %s phase is reported',
    (guarantee) => {
      const story = cleanRide().request('rival', PHASE, { idempotencyKey: null })
      expect(broken('I2', story, ridesWith(guarantee)).length).toBeGreaterThan(0)
    },
  )

  test('the violation names the requests', () => {
    const story = cleanRide().request('rival', PHASE, { idempotencyKey: null })
    expect(broken('I2', story)).toMatchInlineSnapshot(`
      [
        "The provider executed 2 requests of 'charge_created': POST /charges by client under key pawl_key_of_run_1; POST /charges by rival without a key.",
      ]
    `)
  })

  test('a second effect is reported even if nobody knows whose request it was', () => {
    const { story } = begun()
    story.call('client', PHASE).request('client', PHASE)
    expect(broken('I2', story.request('?', PHASE, { phase: null, actor: null }))).toHaveLength(1)
  })

  test('a raised epoch allows a second attempt, but not a second effect', () => {
    const { story } = begun()
    story.call('client', PHASE).request('client', PHASE, { executed: false })
    story.giveBack('client', { effect_epoch: 1 }).takeOver('retry')
    story.call('retry', PHASE, { execution: 2, idempotencyKey: 'next' }).request('retry', PHASE)
    expect(broken('I2', story, ONCE)).toEqual([])
    expect(broken('I2', story.request('retry', PHASE), ONCE)).toHaveLength(2)
  })

  test('a second attempt of an at_most_once phase is reported, even without an effect', () => {
    const story = cleanRide().request('retry', PHASE, { executed: false })
    expect(broken('I2', story, ONCE)).toMatchInlineSnapshot(`
      [
        "The provider got 2 requests of 'charge_created', which may not be repeated: POST /charges by client under key pawl_key_of_run_1; POST /charges by retry under key pawl_key_of_run_1.",
      ]
    `)
    expect(broken('I2', story, QUERYABLE)).toEqual([])
  })

  test('a key that was rightly deleted has another effect when it is sent again, if that makes it a new one', () => {
    const runsAgain = { ...ONCE, runsAgain: true } as const
    expect(broken('I2', sentAgain(cleanRide().expire().reap()), runsAgain)).toEqual([])
    expect(broken('I2', sentAgain(cleanRide().reap()), runsAgain)).not.toEqual([])
    // Its effect is on record.
    expect(broken('I2', sentAgain(cleanRide().expire().reap()), ONCE)).not.toEqual([])
    const { commits, ...others } = sentAgain(cleanRide().expire().reap()).build()
    const unrecorded = commits.map(({ changes, ...commit }) => ({
      ...commit,
      changes: changes.filter(({ table }) => table !== 'effects'),
    }))
    expect(rulesBroken({ ...others, commits: unrecorded }, ONCE)).not.toContain('I2')
    // Its request went on without a call that may have been made.
    const unknown = unrecorded.map(({ changes, ...commit }) => ({
      ...commit,
      changes: changes.map((change) =>
        change.op === 'DELETE' && change.table === 'idempotency_keys'
          ? { ...change, before: { ...change.before, trail: [{ p: PHASE, f: 1, u: true }] } }
          : change,
      ),
    }))
    expect(rulesBroken({ ...others, commits: unknown }, ONCE)).toContain('I2')
    expect(rulesBroken({ ...others, commits }, ONCE)).toContain('I2')
  })

  test('a failover allows a second effect only for a call whose declaration it lost', () => {
    for (const shape of [ONCE, QUERYABLE]) {
      expect(broken('I2', calledAgain(declared().lose(1)), shape)).toEqual([])
      // Something else was lost after the declaration.
      expect(broken('I2', calledAgain(declared().renew('client').lose(1)), shape)).not.toEqual([])
      expect(broken('I2', calledAgain(calledAgain(declared().lose(1))), shape)).not.toEqual([])
    }
    // A provider that deduplicates does so, whatever was lost.
    expect(broken('I2', calledAgain(declared().lose(1)), RIDES)).toHaveLength(1)
  })

  test('a call that is repeated within one execution is reported', () => {
    const { story } = begun()
    story.call('client', PHASE).call('client', PHASE)
    expect(broken('I2', story)).toMatchInlineSnapshot(`
      [
        "client made the call of 'charge_created' a second time in one execution, without asking the provider in between.",
      ]
    `)
  })

  test('a call after the provider was queried is not a repetition, nor is one of another execution or phase', () => {
    const { story } = begun()
    story.call('client', PHASE).call('client', PHASE, { kind: 'reconcile' }).call('client', PHASE)
    story.call('retry', PHASE, { execution: 2 }).call('client', 'other_phase')
    expect(broken('I2', story)).toEqual([])
  })
})

describe('I8: provider keys', () => {
  test('holds for one key over all attempts', () => {
    expect(broken('I8', crashedRide())).toEqual([])
  })

  test('a key that changes between attempts is reported', () => {
    const { story } = begun()
    story.call('client', PHASE).call('retry', PHASE, { execution: 2, idempotencyKey: 'pawl_other' })
    expect(broken('I8', story)).toMatchInlineSnapshot(`
      [
        "The calls of 'charge_created' carried 2 keys, but no epoch was raised: pawl_key_of_run_1 (client), pawl_other (retry).",
      ]
    `)
  })

  test('a raised epoch allows one more key, and only in its phase', () => {
    const raised = (effect_epoch: number) => {
      const { story } = begun()
      story.call('client', PHASE).giveBack('client', { effect_epoch }).takeOver('retry')
      return story.call('retry', PHASE, { execution: 2, idempotencyKey: 'pawl_1' })
    }
    expect(broken('I8', raised(1))).toEqual([])
    expect(broken('I8', raised(0))).toHaveLength(1)
    expect(broken('I8', raised(1).call('retry', PHASE, { execution: 3, idempotencyKey: 'pawl_2' })))
      .toMatchInlineSnapshot(`
        [
          "The calls of 'charge_created' carried 3 keys, but the epoch was raised once: pawl_key_of_run_1 (client), pawl_1 (retry), pawl_2 (retry).",
        ]
      `)
    const elsewhere = begun().story.advance('client', PHASE).write('client', { effect_epoch: 1 })
    elsewhere.call('client', PHASE).call('retry', PHASE, { execution: 2, idempotencyKey: 'pawl_1' })
    expect(broken('I8', elsewhere)).toHaveLength(1)
  })

  test('a key that two phases share is reported', () => {
    const { story } = begun()
    story.call('client', PHASE).call('client', 'receipt_sent')
    expect(broken('I8', story)).toMatchInlineSnapshot(`
      [
        "The calls of 'charge_created' and 'receipt_sent' carried the same key pawl_key_of_run_1.",
      ]
    `)
  })
})

const repeated = (idempotencyKey: string | null, path = '/charges') => {
  const { story } = begun()
  story.call('client', PHASE).request('client', PHASE, { idempotencyKey })
  return broken('lint', story.request('client', PHASE, { idempotencyKey, path, executed: false }), QUERYABLE)
}

describe('lints', () => {
  test('hold for one request per call, with its key, the same each time', () => {
    expect(broken('lint', crashedRide())).toEqual([])
    expect(
      broken('lint', cleanRide().request('x', PHASE, { method: 'GET', phase: null, idempotencyKey: null })),
    ).toEqual([])
  })

  test('a request inside a transaction is reported', () => {
    expect(broken('lint', begun().story.request('client', 'ride_created', { inTransaction: true })))
      .toMatchInlineSnapshot(`
      [
        "client sent POST /charges in 'ride_created' while the phase's transaction was open: a rollback does not take it back.",
      ]
    `)
  })

  test('a request outside every call is reported', () => {
    expect(broken('lint', begun().story.request('x', '', { phase: null, actor: null })))
      .toMatchInlineSnapshot(`
        [
          "Somebody sent POST /charges outside every call: nothing records it, and a resume may send it again.",
        ]
      `)
  })

  test('two requests in one call are reported', () => {
    const { story } = begun()
    story.call('client', PHASE).request('client', PHASE)
    story.request('client', PHASE, { path: '/receipts', idempotencyKey: 'another' })
    expect(broken('lint', story)).toMatchInlineSnapshot(`
      [
        "client sent POST /charges in 'charge_created', and in the same call POST /receipts: only one of them can be settled.",
      ]
    `)
  })

  test('the same request again, under the same key, is not reported', () => {
    expect(repeated('pawl_1')).toEqual([])
    const { story } = begun()
    story
      .call('client', PHASE)
      .request('client', PHASE)
      .request('client', PHASE, { idempotencyKey: 'pawl_2' })
    expect(broken('lint', story)).toHaveLength(1)
    expect(repeated(null)).toHaveLength(1)
    expect(repeated('pawl_1', '/refunds')).toHaveLength(2)
  })

  test('one request in each of two calls, and a query, are not reported', () => {
    const { story } = begun()
    story.call('client', PHASE).request('client', PHASE).request('client', PHASE, { method: 'GET' })
    story.call('client', PHASE, { execution: 2 }).request('client', PHASE, { idempotencyKey: 'pawl_2' })
    story.call('rival', PHASE, { execution: 3 }).request('rival', PHASE)
    expect(broken('lint', story)).toEqual([])
  })

  test('a phase that does not send its key is reported only if it is keyed', () => {
    const { story } = begun()
    story.call('client', PHASE).request('client', PHASE, { idempotencyKey: null })
    expect(broken('lint', story)).toMatchInlineSnapshot(`
      [
        "client sent POST /charges in 'charge_created' without the idempotencyKey that call was given: the provider key was not sent.",
      ]
    `)
    expect(broken('lint', story, QUERYABLE)).toEqual([])
  })

  test.each([{ method: 'PUT' }, { path: '/refunds' }, { body: '{"amount":1900}' }])(
    'a request that differs between attempts by %j is reported',
    (other) => {
      const { story } = begun()
      story.call('client', PHASE).request('client', PHASE)
      story.call('retry', PHASE, { execution: 2 }).request('retry', PHASE, { executed: false, ...other })
      expect(broken('lint', story)).toHaveLength(1)
    },
  )

  test('the violation shows what differs', () => {
    const { story } = begun()
    story.call('client', PHASE).request('client', PHASE)
    story.call('retry', PHASE, { execution: 2 }).request('retry', PHASE, { body: '{"amount":1900}' })
    expect(broken('lint', story)).toMatchInlineSnapshot(`
      [
        "retry sent POST /charges in 'charge_created' under a provider key that had been sent before, and its body was "{\\"amount\\":1900}", where it had been "{\\"amount\\":1800}".",
      ]
    `)
  })

  test('a key that was deleted and sent again may send something else', () => {
    const story = cleanRide().expire().reap().reserve('retry')
    story.call('retry', PHASE, { execution: 2 }).request('retry', PHASE, { body: '{"amount":1900}' })
    expect(broken('lint', story)).toEqual([])
  })
})
