import { setImmediate as turn } from 'node:timers/promises'
import { deliverEach, type JobToDeliver, type Sink } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { counts, DELIVERED, failed, Inbox, RelayTrial } from '../support/relay-trial.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let trial: RelayTrial
beforeEach(async () => {
  trial = new RelayTrial(await TestDatabase.create())
})
afterEach(() => trial.end())

/** Every rejection that nobody handled, from now to the end of the test. */
function unhandled(): unknown[] {
  const rejections: unknown[] = []
  const note = (reason: unknown): void => void rejections.push(reason)
  process.on('unhandledRejection', note)
  onTestFinished(() => void process.off('unhandledRejection', note))
  return rejections
}

describe('results, one per job', () => {
  test('may be mixed', async () => {
    const [good, bad, hopeless] = await trial.insert(3)
    const inbox = new Inbox(({ id }) => {
      if (id === good) return DELIVERED
      return id === bad ? failed(new Error('busy')) : { type: 'failed', error: 'no such list', dead: true }
    })
    const round = await trial.relay({ sink: inbox }).runOnce()
    expect(round).toEqual(counts({ claimed: 3, delivered: 1, failed: 1, dead: 1 }))
    expect(await trial.rows()).toMatchObject([
      { id: bad, attempts: 1, is_claimed: false, is_dead: false, last_error: 'Error: busy' },
      { id: hopeless, attempts: 1, is_claimed: false, is_dead: true, last_error: 'no such list' },
    ])
  })

  const answers: [string, (jobs: readonly JobToDeliver[]) => unknown, string][] = [
    ['throws', () => Promise.reject(new Error('down')), 'Error: down'],
    [
      'throws at once',
      () => {
        throw new Error('down')
      },
      'Error: down',
    ],
    ['returns too few', () => [DELIVERED], 'PAWL_INVALID_RESULT'],
    ['returns too many', () => [DELIVERED, DELIVERED, DELIVERED], 'PAWL_INVALID_RESULT'],
    ['returns nothing', () => undefined, 'PAWL_INVALID_RESULT'],
    ['returns a list of holes', () => Array.from({ length: 2 }), 'PAWL_INVALID_RESULT'],
    ['returns nonsense', () => ['delivered', { type: 'ok' }], 'PAWL_INVALID_RESULT'],
    ['returns no reason', () => [{ type: 'failed' }, { type: 'failed' }], 'undefined'],
    [
      'returns a reason that cannot be read',
      () => [{ type: 'failed', error: UNREADABLE }, failed(UNREADABLE)],
      '',
    ],
  ]
  test.each(answers)('are never taken for delivered if a sink %s', async (_, answer, reason) => {
    await trial.insert(2)
    const sink = { deliver: answer } as unknown as Sink
    expect(await trial.relay({ sink }).runOnce()).toEqual(counts({ claimed: 2, failed: 2 }))
    const rows = await trial.rows()
    expect(rows).toMatchObject([{ attempts: 1 }, { attempts: 1 }])
    for (const row of rows) expect(row.last_error).toContain(reason)
  })

  test('are matched to the jobs even if a sink changes its list of them', async () => {
    await trial.insert(2)
    const sink: Sink = {
      async deliver(jobs) {
        const own = jobs as JobToDeliver[]
        return own.splice(0).map(() => DELIVERED)
      },
    }
    expect(await trial.relay({ sink }).runOnce()).toEqual(counts({ claimed: 2, delivered: 2 }))
  })

  test('are stored without the secrets in their reason', async () => {
    await trial.insert(1)
    const inbox = new Inbox(() => failed(new Error('POST https://me:secret@queue: Bearer abc.def said no')))
    await trial.relay({ sink: inbox }).runOnce()
    const [row] = await trial.rows()
    expect(row?.last_error).toBe('Error: POST https://[credentials]@queue: Bearer [token] said no')
  })
})

const UNREADABLE = Object.defineProperty(new Error(), 'message', {
  get() {
    throw new Error('unreadable')
  },
})

describe('a sink that does not answer in time', () => {
  test('has its signal aborted, and its jobs are tried again later', async () => {
    await trial.insert(1)
    let reason: unknown
    const sink: Sink = {
      deliver: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            reason = signal.reason
            reject(new Error('gave up'))
          })
        }),
    }
    const relay = trial.relay({ sink, deliverTimeoutMs: 1_500 })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, failed: 1 }))
    expect(reason).toMatchObject({ code: 'PAWL_CALL_TIMEOUT' })
    expect(await trial.rows()).toMatchObject([
      { attempts: 1, is_claimed: false, last_error: 'Error: gave up' },
    ])
  })

  test('is left behind if it ignores its signal, and what it returns later changes nothing', async () => {
    const rejections = unhandled()
    const ids = await trial.insert(2)
    const say = gate()
    const said = gate()
    const sink: Sink = {
      async deliver(jobs) {
        await say.opened
        said.open()
        return jobs.map(() => DELIVERED)
      },
    }
    const relay = trial.relay({ sink, deliverTimeoutMs: 1_500 })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 2, failed: 2 }))
    const before = await trial.rows()
    expect(before).toMatchObject(ids.map((id) => ({ id, is_claimed: false })))
    expect(before[0]?.last_error).toContain('[PAWL_CALL_TIMEOUT]: The sink did not answer within 1500 ms.')
    say.open()
    await said.opened
    await turn()
    expect((await trial.rows()).map(({ id }) => id)).toEqual(ids)
    expect(rejections).toEqual([])
  })

  test('causes no unhandled rejection if it rejects later', async () => {
    const rejections = unhandled()
    await trial.insert(1)
    const say = gate()
    const sink: Sink = {
      async deliver() {
        await say.opened
        throw new Error('late')
      },
    }
    await trial.relay({ sink, deliverTimeoutMs: 1_500 }).runOnce()
    say.open()
    await turn()
    await turn()
    expect(rejections).toEqual([])
  })
})

describe('deliverEach', () => {
  test('takes what returns for delivered, and tries again what throws', async () => {
    const ids = await trial.insert(30)
    const got: string[] = []
    const sink = deliverEach(async ({ id, payload }) => {
      await turn()
      got.push(id)
      if (payload === 7) throw new Error('seven')
    })
    expect(await trial.relay({ sink }).runOnce()).toEqual(counts({ claimed: 30, delivered: 29, failed: 1 }))
    expect(got.toSorted()).toEqual(ids.toSorted())
    expect(await trial.rows()).toMatchObject([{ id: ids[6], last_error: 'Error: seven' }])
  })

  test('delivers a few jobs at a time', async () => {
    await trial.insert(30)
    let underWay = 0
    let most = 0
    const sink = deliverEach(async () => {
      most = Math.max(most, ++underWay)
      await turn()
      underWay--
    })
    expect(await trial.relay({ sink }).runOnce()).toMatchObject({ delivered: 30 })
    expect(most).toBe(10)
  })

  test('lets a job that never ends take no other with it', async () => {
    const ids = await trial.insert(30)
    const sink = deliverEach(({ payload }) => (payload === 7 ? new Promise(() => {}) : Promise.resolve()))
    const relay = trial.relay({ sink, deliverTimeoutMs: 1_500 })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 30, delivered: 29, failed: 1 }))
    const [row] = await trial.rows()
    expect(row?.id).toBe(ids[6])
    expect(row?.last_error).toContain('PAWL_CALL_TIMEOUT')
  })

  test('does not begin, after its time-out, the jobs that never-ending ones kept waiting', async () => {
    await trial.insert(30)
    const got: string[] = []
    const sink = deliverEach(({ id, payload }) => {
      got.push(id)
      return Number(payload) <= 10 ? new Promise(() => {}) : Promise.resolve()
    })
    const relay = trial.relay({ sink, deliverTimeoutMs: 1_500 })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 30, failed: 30 }))
    expect(got).toHaveLength(10)
  })
})
