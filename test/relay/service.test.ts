import { createBackground, type Sink } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { heard } from '../support/heard.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { counts, DELIVERED, failed, Inbox, RelayTrial } from '../support/relay-trial.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const AN_HOUR_MS = 3_600_000

let trial: RelayTrial
beforeEach(async () => {
  trial = new RelayTrial(await TestDatabase.create())
})
afterEach(() => trial.end())

/** A relay whose next statement with that text is executed, and whose answer is lost. */
async function relayThatLoses(text: string, sink: Sink, maxAttempts = 25) {
  const proxy = await PostgresProxy.start(trial.database.url)
  onTestFinished(() => proxy.close())
  const struck = proxy.armStatement(text, 'answer_lost')
  const pool = trial.database.pool({ connectionString: proxy.url })
  return { relay: trial.relay({ sink, maxAttempts }, { pool }), struck }
}

describe('a lost answer', () => {
  test('to a claim leads to another try, which gets the same jobs', async () => {
    const ids = await trial.insert(2)
    const inbox = new Inbox()
    const { relay, struck } = await relayThatLoses('SET claim = $1', inbox)
    // If the server has not noticed the lost connection yet, the rows are locked, and we wait for the claim to end.
    expect(await relay.runOnce()).toEqual(counts({ claimed: 2, delivered: 2 }))
    await struck
    expect(inbox.got).toMatchObject(ids.map((id) => ({ id, attempt: 1 })))
    expect(await trial.rows()).toEqual([])
  })

  test('to a delete does not lead to another delivery', async () => {
    await trial.insert(1)
    const inbox = new Inbox()
    const { relay, struck } = await relayThatLoses('DELETE FROM', inbox)
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, lost: 1 }))
    await struck
    expect(await relay.runOnce()).toEqual(counts())
    expect(inbox.got).toHaveLength(1)
  })

  test('to a return does not keep a dead job from being announced', async () => {
    const [jobId] = await trial.insert(1)
    const dead = hear('pawl:job_dead')
    const { relay, struck } = await relayThatLoses(
      'last_error = coalesce(each.last_error',
      new Inbox(() => failed()),
      1,
    )
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, dead: 1 }))
    await struck
    expect(dead).toMatchObject([{ jobId }])
  })
})

describe('start and stop', () => {
  test('a phase that stages in this process wakes the relay at once', async () => {
    const engine = trial.engine()
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox, pollMs: AN_HOUR_MS }, engine)
    const firstRound = heard('pawl:round')
    relay.start()
    await firstRound
    const { ids } = await trial.stage([{ payload: 1 }, { payload: 2 }, { payload: 3 }], engine)
    await inbox.arrived(3)
    expect(inbox.ids).toEqual(ids)
    await relay.stop()
    expect(await trial.rows()).toEqual([])
  })

  test('more than one batch is delivered without a pause', async () => {
    await trial.insert(25)
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox, batchSize: 10, pollMs: AN_HOUR_MS })
    relay.start()
    await inbox.arrived(25)
    await relay.stop()
    expect(await trial.rows()).toEqual([])
  })

  test('stop waits for what is under way, and begins nothing new', async () => {
    await trial.insert(2)
    const letGo = gate()
    const inbox = new Inbox(async () => {
      await letGo.opened
      return DELIVERED
    })
    const warnings = hear('pawl:warning')
    const relay = trial.relay({ sink: inbox, batchSize: 1, pollMs: 1 })
    relay.start()
    await inbox.arrived(1)
    const stopped = relay.stop()
    letGo.open()
    await stopped
    expect(inbox.got).toHaveLength(1)
    expect(await trial.rows()).toMatchObject([{ attempts: 0 }])
    expect(warnings).toEqual([])
  })

  test('stop waits no longer than its bound, signals the sink, and returns its jobs', async () => {
    await trial.insert(1)
    const warnings = hear('pawl:warning')
    const signals: AbortSignal[] = []
    const inSink = gate()
    const sink: Sink = {
      deliver: (_, { signal }) => {
        signals.push(signal)
        inSink.open()
        return new Promise(() => {})
      },
    }
    const relay = trial.relay({ sink })
    relay.start()
    // A second start changes nothing, not even what a stop has to end.
    relay.start()
    await inSink.opened
    relay.start()
    const ended = heard('pawl:round')
    await relay.stop({ timeoutMs: 20 })
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
    expect(warnings).toMatchObject([
      { message: 'the relay was stopped before everything that it had begun was done' },
    ])
    await ended
    expect(await trial.rows()).toMatchObject([{ is_claimed: false, attempts: 1 }])
  })

  test('a relay that was stopped runs a round when asked to, and can be started again', async () => {
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox, pollMs: 1 })
    relay.start()
    await relay.stop()
    await relay.stop()
    await trial.insert(1)
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
    relay.start()
    await trial.insert(1)
    await inbox.arrived(2)
    await relay.stop()
    expect(await trial.rows()).toEqual([])
  })

  test('a stop with an invalid bound stops nothing, not even the wake signal', async () => {
    const engine = trial.engine()
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox, pollMs: AN_HOUR_MS }, engine)
    const firstRound = heard('pawl:round')
    relay.start()
    await firstRound
    await expect(relay.stop({ timeoutMs: -1 })).rejects.toMatchObject({ code: 'PAWL_INVALID_OPTION' })
    await trial.stage([{}], engine)
    await inbox.arrived(1)
    await relay.stop()
  })

  test('a relay that is started again while it stops keeps its wake signal, and its new deliveries are not cut short', async () => {
    const [first, second] = [gate(), gate()]
    const begun = [gate(), gate()]
    const aborted: number[] = []
    let turns = 0
    const sink: Sink = {
      async deliver(jobs, { signal }) {
        const turn = turns++
        signal.addEventListener('abort', () => aborted.push(turn))
        begun[turn]?.open()
        await (turn === 0 ? first : second).opened
        return jobs.map(() => DELIVERED)
      },
    }
    const engine = trial.engine()
    const relay = trial.relay({ sink, pollMs: AN_HOUR_MS }, engine)
    relay.start()
    await trial.stage([{}], engine)
    await begun[0]?.opened
    const stopped = relay.stop()
    relay.start()
    await trial.stage([{}], engine)
    await begun[1]?.opened
    first.open()
    await stopped
    expect(aborted).not.toContain(1)
    const round = heard('pawl:round')
    second.open()
    await round
    expect(await trial.rows()).toEqual([])
  })

  test('a relay that was never started stops at once', async () => {
    await trial.relay({ sink: new Inbox() }).stop()
  })

  test('a round that fails is reported and tried again', async () => {
    const proxy = await PostgresProxy.start(trial.database.url)
    const pool = trial.database.pool({ connectionString: proxy.url })
    const inbox = new Inbox()
    const reports = hear('pawl:round_failed')
    const relay = trial.relay({ sink: inbox, pollMs: 1 }, { pool })
    const firstRound = heard('pawl:round')
    relay.start()
    await firstRound
    const twoFailures = heard('pawl:round_failed', 2)
    const port = Number(new URL(proxy.url).port)
    await proxy.close()
    await twoFailures
    expect(reports[0]).toMatchObject({ service: 'relay', failures: 1 })
    expect(reports[1]).toMatchObject({ service: 'relay', failures: 2 })
    const again = await PostgresProxy.start(trial.database.url, port)
    onTestFinished(() => again.close())
    await trial.insert(1)
    await inbox.arrived(1)
    await relay.stop()
  })

  test('if the outcome of one group of a round cannot be stored, those of the others are', async () => {
    const ids = await trial.insert(3)
    await trial.database.rows('UPDATE pawl.staged_jobs SET attempts = 3')
    let deletes = 0
    const pool = trial.database.pool()
    const engine = createProbedEngine(
      { pool, pipelines: [], schema: trial.database.schema },
      ({ step, when }) => {
        if (step === 'delete_jobs' && when === 'before' && ++deletes === 1) throw new Error('disk full')
      },
    )
    onTestFinished(() => engine.close())
    const inbox = new Inbox()
    const [relay] = createBackground({
      engine,
      completer: false,
      reaper: false,
      relay: { sink: inbox },
    }).relays
    await expect(relay?.runOnce()).rejects.toThrow('disk full')
    expect(inbox.ids).toEqual(ids)
    expect(await trial.rows()).toHaveLength(1)
  })
})

test.each([
  [[{}, { names: ['mail'] }], 'relay: names is undefined; it takes a list for each of several relays'],
  [[{ names: ['mail'] }, { names: ['sms', 'mail'] }], "relay: the name 'mail' is 'in two relays'"],
])('relays that would take the same jobs are refused: %j', (relays, message) => {
  const relay = relays.map((options) => ({ ...options, sink: new Inbox() }))
  expect(() => createBackground({ engine: trial.engine(), relay })).toThrow(message)
})
