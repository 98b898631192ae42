import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { counts, DELIVERED, failed, Inbox, RelayTrial, stageJobs } from '../support/relay-trial.js'
import { gate, hear, waitingForLock } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let trial: RelayTrial
beforeEach(async () => {
  trial = new RelayTrial(await TestDatabase.create())
})
afterEach(() => trial.end())

describe('what a phase staged', () => {
  test('is delivered once, as it was staged, and is gone', async () => {
    const { ids, keyId } = await trial.stage([{ name: 'send_receipt', payload: 7 }])
    const [staged] = await trial.database.rows<{ created_at: Date }>(
      'SELECT created_at FROM pawl.staged_jobs',
    )
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, delivered: 1 }))
    expect(inbox.got).toEqual([
      {
        id: ids[0],
        name: 'send_receipt',
        payload: 7,
        keyId,
        attempt: 1,
        stagedAt: staged?.created_at,
        traceparent: null,
      },
    ])
    expect(await trial.rows()).toEqual([])
    expect(await relay.runOnce()).toEqual(counts())
    expect(inbox.got).toHaveLength(1)
  })

  // Shows I13.
  test('in a phase that was rolled back is never delivered', async () => {
    const engine = trial.engine()
    const input = { jobs: [{}], fail: true }
    const outcome = await engine.execute(stageJobs, { scope: 'tests', key: randomUUID(), input })
    expect(outcome.type).toBe('retry_later')
    const inbox = new Inbox()
    expect(await trial.relay({ sink: inbox }).runOnce()).toEqual(counts())
  })

  // Shows I13.
  test('is delivered even if it commits after later jobs were delivered', async () => {
    const client = await trial.database.admin.connect()
    await client.query('BEGIN')
    const [early] = await trial.insert(1, client)
    const later = await trial.insert(2)
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox })
    expect(await relay.runOnce()).toMatchObject({ delivered: 2 })
    expect(inbox.ids.toSorted()).toEqual(later.toSorted())
    await client.query('COMMIT')
    client.release()
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
    expect(inbox.ids.at(-1)).toBe(early)
    expect(await trial.rows()).toEqual([])
  })

  test('waits for the time that it was put off to', async () => {
    await trial.stage([{ runAfterMs: 3_600_000 }])
    const relay = trial.relay({ sink: new Inbox() })
    expect(await relay.runOnce()).toEqual(counts())
    await trial.endDelays()
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
  })

  test('goes out in batches of the given size, oldest first', async () => {
    const ids = await trial.insert(5)
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox, batchSize: 2 })
    expect(await relay.runOnce()).toMatchObject({ claimed: 2, delivered: 2 })
    expect(inbox.ids).toEqual(ids.slice(0, 2))
    expect(await relay.runOnce()).toMatchObject({ claimed: 2 })
    expect(await relay.runOnce()).toMatchObject({ claimed: 1 })
    expect(inbox.ids.toSorted()).toEqual(ids.toSorted())
  })
})

describe('the jobs of one key are delivered in order', () => {
  test('by one relay, one at a time', async () => {
    await trial.stage([{ payload: 1 }, { payload: 2 }, { payload: 3 }])
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox })
    for (const payload of [1, 2, 3]) {
      expect(await relay.runOnce()).toMatchObject({ claimed: 1, delivered: 1 })
      expect(inbox.payloads.at(-1)).toBe(payload)
    }
  })

  test('by two relays, of which the second finds nothing while the first delivers', async () => {
    await trial.stage([{ payload: 1 }, { payload: 2 }, { payload: 3 }])
    const let1Go = gate()
    const first = new Inbox(async () => {
      await let1Go.opened
      return DELIVERED
    })
    const second = new Inbox()
    const [one, other] = [trial.relay({ sink: first }), trial.relay({ sink: second })]
    const round = one.runOnce()
    await first.arrived(1)
    expect(await other.runOnce()).toEqual(counts())
    let1Go.open()
    expect(await round).toMatchObject({ delivered: 1 })
    expect(await other.runOnce()).toMatchObject({ delivered: 1 })
    expect(await one.runOnce()).toMatchObject({ delivered: 1 })
    expect([first.payloads, second.payloads]).toEqual([[1, 3], [2]])
  })

  test('by two started relays on 60 jobs of 3 keys', async () => {
    const engine = trial.engine()
    const payloads = Array.from({ length: 20 }, (_, index) => index)
    const keys = await Promise.all(
      [1, 2, 3].map(() =>
        trial.stage(
          payloads.map((payload) => ({ payload })),
          engine,
        ),
      ),
    )
    const inbox = new Inbox()
    const relays = [1, 2].map(() => trial.relay({ sink: inbox, pollMs: 1 }))
    for (const relay of relays) relay.start()
    await inbox.arrived(60)
    await Promise.all(relays.map((relay) => relay.stop()))
    for (const { keyId } of keys) {
      const ofKey = inbox.got.filter((job) => job.keyId === keyId)
      expect(ofKey.map(({ payload }) => payload)).toEqual(payloads)
    }
    expect(await trial.rows()).toEqual([])
  })

  test('while a job that fails holds back later ones of its key, and no others, until it is dead', async () => {
    const engine = trial.engine()
    const { ids } = await trial.stage([{ payload: 1 }, { payload: 2 }], engine)
    const others = await trial.stage([{ payload: 3 }, { payload: 4 }], engine)
    const inbox = new Inbox((job) => (job.payload === 1 ? failed() : DELIVERED))
    const relay = trial.relay({ sink: inbox, maxAttempts: 3 })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 2, delivered: 1, failed: 1 }))
    // Whether the first is due again or still put off, the later one waits.
    expect(inbox.ids).toEqual([ids[0], others.ids[0]])
    await trial.database.rows(
      `UPDATE pawl.staged_jobs SET run_after = clock_timestamp() + interval '1 hour' WHERE id = $1`,
      [ids[0]],
    )
    expect(await relay.runOnce()).toMatchObject({ claimed: 1, delivered: 1 })
    expect(await relay.runOnce()).toEqual(counts())
    await trial.endDelays()
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, failed: 1 }))
    await trial.endDelays()
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, dead: 1 }))
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, delivered: 1 }))
    expect(inbox.payloads).toEqual([1, 3, 4, 1, 1, 2])
  })

  test('but a job that was put off by its phase does not hold back later ones until it has been tried', async () => {
    const { ids } = await trial.stage([{ payload: 1, runAfterMs: 3_600_000 }, { payload: 2 }, { payload: 3 }])
    const inbox = new Inbox((job) => (job.payload === 1 ? failed() : DELIVERED))
    const relay = trial.relay({ sink: inbox })
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
    expect(inbox.payloads).toEqual([2])
    await trial.endDelays()
    expect(await relay.runOnce()).toMatchObject({ failed: 1 })
    await trial.database.rows(
      `UPDATE pawl.staged_jobs SET run_after = clock_timestamp() + interval '1 hour' WHERE id = $1`,
      [ids[0]],
    )
    expect(await relay.runOnce()).toEqual(counts())
  })
})

describe('relays for certain names', () => {
  test('each deliver their own jobs in order, whatever became of the others', async () => {
    await trial.stage([
      { name: 'a', payload: 1 },
      { name: 'b', payload: 2 },
      { name: 'a', payload: 3 },
      { name: 'b', payload: 4 },
    ])
    const [failing, working] = [new Inbox(() => failed()), new Inbox()]
    const a = trial.relay({ sink: failing, names: ['a'] })
    const b = trial.relay({ sink: working, names: ['b'] })
    expect(await a.runOnce()).toEqual(counts({ claimed: 1, failed: 1 }))
    expect(await b.runOnce()).toMatchObject({ delivered: 1 })
    expect(await b.runOnce()).toMatchObject({ delivered: 1 })
    expect([failing.payloads, working.payloads]).toEqual([[1], [2, 4]])
    await trial.endDelays()
    const unnamed = new Inbox()
    const all = trial.relay({ sink: unnamed })
    while ((await all.runOnce()).delivered > 0);
    expect(unnamed.payloads).toEqual([1, 3])
  })
})

describe('claims', () => {
  test('keep two relays of two engines from delivering any of 500 jobs twice', async () => {
    const ids = await trial.insert(500)
    const inbox = new Inbox()
    const relays = [1, 2].map(() => trial.relay({ sink: inbox, batchSize: 7 }))
    const empty = async (relay: (typeof relays)[number]) => {
      while ((await relay.runOnce()).claimed > 0);
    }
    await Promise.all(relays.map(empty))
    expect(inbox.ids.toSorted()).toEqual(ids.toSorted())
    expect(await trial.rows()).toEqual([])
  })

  test('pass over a row that another session has locked, without waiting', async () => {
    const [locked, free] = await trial.insert(2)
    const client = await trial.database.admin.connect()
    await client.query(
      `BEGIN; SELECT FROM ${trial.database.schema}.staged_jobs WHERE id = '${locked}' FOR UPDATE`,
    )
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox })
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
    expect(inbox.ids).toEqual([free])
    await client.query('ROLLBACK')
    client.release()
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
  })

  test('that ran out after delivery let the relay delete nothing, and the job is delivered again under its id', async () => {
    const [id] = await trial.insert(1)
    const letGo = gate()
    const slow = new Inbox(async () => {
      await letGo.opened
      return DELIVERED
    })
    const round = trial.relay({ sink: slow }).runOnce()
    await slow.arrived(1)
    await trial.expireClaims()
    const otherLetGo = gate()
    const other = new Inbox(async () => {
      await otherLetGo.opened
      return DELIVERED
    })
    const otherRound = trial.relay({ sink: other }).runOnce()
    await other.arrived(1)
    letGo.open()
    expect(await round).toEqual(counts({ claimed: 1, lost: 1 }))
    expect(await trial.rows()).toMatchObject([{ id, is_claimed: true, attempts: 2 }])
    otherLetGo.open()
    expect(await otherRound).toEqual(counts({ claimed: 1, delivered: 1 }))
    expect([slow.ids, other.ids, other.got[0]?.attempt]).toEqual([[id], [id], 2])
    expect(await trial.rows()).toEqual([])
  })

  test('that ran out before the delivery failed let the relay change nothing', async () => {
    const [id] = await trial.insert(1)
    const letGo = gate()
    const slow = new Inbox(async () => {
      await letGo.opened
      return failed(new Error('too late'))
    })
    const dead = hear('pawl:job_dead')
    const round = trial.relay({ sink: slow, maxAttempts: 1 }).runOnce()
    await slow.arrived(1)
    await trial.expireClaims()
    const otherLetGo = gate()
    const other = new Inbox(async () => {
      await otherLetGo.opened
      return DELIVERED
    })
    const otherRound = trial.relay({ sink: other }).runOnce()
    await other.arrived(1)
    letGo.open()
    expect(await round).toEqual(counts({ claimed: 1, lost: 1 }))
    expect(await trial.rows()).toMatchObject([{ id, is_claimed: true, is_dead: false, last_error: null }])
    otherLetGo.open()
    await otherRound
    expect(dead).toEqual([])
  })

  test('that have run out but were not taken over still let the relay delete', async () => {
    await trial.insert(1)
    const inbox = new Inbox(async () => {
      await trial.expireClaims()
      return DELIVERED
    })
    expect(await trial.relay({ sink: inbox }).runOnce()).toMatchObject({ delivered: 1 })
    expect(await trial.rows()).toEqual([])
  })

  test('keep a process that stood still from delivering what others may have taken by now', async () => {
    await trial.insert(1)
    const inbox = new Inbox()
    const standStill = async () => void (await trial.database.rows('SELECT pg_sleep(0.1)'))
    const probe = ({ step, when }: { step: string; when: string }) =>
      step === 'claim_jobs' && when === 'after' ? standStill() : undefined
    const relay = trial.relay({ sink: inbox, deliverTimeoutMs: 50 }, { probe })
    expect(await relay.runOnce()).toEqual(counts({ claimed: 1, lost: 1 }))
    expect(inbox.got).toEqual([])
  })

  test('do not begin while the relay waits for a connection', async () => {
    await trial.insert(1)
    const pool = trial.database.pool({ max: 1 })
    const client = await pool.connect()
    const inbox = new Inbox()
    const round = trial.relay({ sink: inbox, deliverTimeoutMs: 1_500 }, { pool }).runOnce()
    await client.query('SELECT pg_sleep(1.6)')
    client.release()
    expect(await round).toMatchObject({ delivered: 1 })
  })
})

describe('a locked row', () => {
  test('makes the delete give up, and the job is delivered again', async () => {
    const application_name = `relay_${randomUUID()}`
    const [id] = await trial.insert(1)
    const client = await trial.database.admin.connect()
    const inbox = new Inbox(async () => {
      await client.query(
        `BEGIN; SELECT FROM ${trial.database.schema}.staged_jobs WHERE id = '${id}' FOR UPDATE`,
      )
      return DELIVERED
    })
    const pool = trial.database.pool({ application_name })
    const round = trial.relay({ sink: inbox }, { pool }).runOnce()
    const refused = expect(round).rejects.toMatchObject({ code: '55P03' })
    await waitingForLock(trial.database, application_name)
    await refused
    await client.query('ROLLBACK')
    client.release()
    await trial.expireClaims()
    const again = new Inbox()
    expect(await trial.relay({ sink: again }).runOnce()).toMatchObject({ delivered: 1 })
    expect(again.ids).toEqual([id])
  })
})
