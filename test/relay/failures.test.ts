import type { Sink } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { counts, DELIVERED, failed, Inbox, RelayTrial } from '../support/relay-trial.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let trial: RelayTrial
beforeEach(async () => {
  trial = new RelayTrial(await TestDatabase.create())
})
afterEach(() => trial.end())

/** The longest that the n-th back-off may be: 500 ms, doubled each time, up to ten minutes. */
const mostMs = (attempts: number) => Math.min(600_000, 500 * 2 ** attempts)

describe('a job that fails again and again', () => {
  test.each([1, 4, 9, 24])('is put off for longer after %i attempts', async (attempts) => {
    await trial.insert(200)
    await trial.database.rows('UPDATE pawl.staged_jobs SET attempts = $1', [attempts - 1])
    await trial.relay({ sink: new Inbox(() => failed()), batchSize: 200 }).runOnce()
    const rows = await trial.rows()
    const rests = rows.map((row) => row.due_in_ms)
    for (const row of rows) expect(row.attempts).toBe(attempts)
    expect(Math.max(...rests)).toBeLessThanOrEqual(mostMs(attempts))
    // Of 200 delays with full jitter, some are in each half of what is allowed (except once in 10^59).
    expect(Math.max(...rests) - Math.min(...rests)).toBeGreaterThan(mostMs(attempts) / 4)
  })

  test('is delivered alone, so that it takes no other job with it', async () => {
    const [poison, ...others] = await trial.insert(5)
    await trial.database.rows('UPDATE pawl.staged_jobs SET attempts = 3 WHERE id = $1', [poison])
    const batches: string[][] = []
    const sink: Sink = {
      async deliver(jobs) {
        batches.push(jobs.map(({ id }) => id))
        if (jobs.some(({ id }) => id === poison)) throw new Error('cannot serialise')
        return jobs.map(() => DELIVERED)
      },
    }
    const round = await trial.relay({ sink }).runOnce()
    expect(round).toEqual(counts({ claimed: 5, delivered: 4, failed: 1 }))
    expect(batches.toSorted((a, b) => a.length - b.length)).toEqual([[poison], others])
  })

  test('is dead after the bound, with the reason; it is announced once, and not delivered again', async () => {
    const { ids, keyId } = await trial.stage([{ name: 'send_receipt' }])
    const dead = hear('pawl:job_dead')
    const inbox = new Inbox(() => failed(new Error('sk_live_123 was refused')))
    const relay = trial.relay({ sink: inbox, maxAttempts: 3 })
    for (const outcome of [{ failed: 1 }, { failed: 1 }, { dead: 1 }]) {
      await trial.endDelays()
      expect(await relay.runOnce()).toEqual(counts({ claimed: 1, ...outcome }))
    }
    await trial.endDelays()
    expect(await relay.runOnce()).toEqual(counts())
    const lastError = 'Error: [key] was refused'
    expect(await trial.rows()).toMatchObject([
      { id: ids[0], is_dead: true, is_claimed: false, attempts: 3, last_error: lastError },
    ])
    expect(dead).toEqual([{ jobId: ids[0], name: 'send_receipt', keyId, attempts: 3, lastError }])
    expect(inbox.got.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
  })

  test('is dead after the bound even if its deliveries never end, since they count as well', async () => {
    const [id] = await trial.insert(1)
    const dead = hear('pawl:job_dead')
    for (let life = 1; life <= 2; life++) {
      const inbox = new Inbox(() => new Promise(() => {}))
      trial
        .relay({ sink: inbox, maxAttempts: 2 })
        .runOnce()
        // It ends with the test, when its pool has ended.
        .catch(() => {})
      await inbox.arrived(1)
      expect(await trial.rows()).toMatchObject([{ attempts: life, is_claimed: true }])
      await trial.expireClaims()
    }
    const inbox = new Inbox()
    const round = await trial.relay({ sink: inbox, maxAttempts: 2 }).runOnce()
    expect(round).toEqual(counts({ claimed: 1, dead: 1 }))
    expect(inbox.got).toEqual([])
    const lastError = 'Error: Delivery was begun 2 times, and the last one did not end.'
    expect(await trial.rows()).toMatchObject([
      { id, is_dead: true, is_claimed: false, last_error: lastError },
    ])
    expect(dead).toMatchObject([{ jobId: id, lastError }])
  })

  test('is claimed alone if several of its deliveries never ended', async () => {
    const ids = await trial.insert(6)
    await trial.database.rows(
      `UPDATE pawl.staged_jobs SET attempts = 3, claim = gen_random_uuid(), claim_until = clock_timestamp()
        WHERE id = ANY ($1)`,
      [ids.slice(0, 3)],
    )
    const batches: string[][] = []
    const sink: Sink = {
      async deliver(jobs) {
        batches.push(jobs.map(({ id }) => id))
        return jobs.map(() => DELIVERED)
      },
    }
    const relay = trial.relay({ sink })
    for (const left of [5, 4, 3]) {
      expect(await relay.runOnce()).toEqual(counts({ claimed: 1, delivered: 1 }))
      // The attempt was not charged to any other job.
      expect(await trial.rows()).toHaveLength(left)
      for (const row of await trial.rows()) expect(row.attempts).toBe(ids.indexOf(row.id) < 3 ? 3 : 0)
    }
    expect(await relay.runOnce()).toEqual(counts({ claimed: 3, delivered: 3 }))
    expect(batches).toEqual([[ids[0]], [ids[1]], [ids[2]], ids.slice(3)])
  })

  test('waits until it is the oldest if it became due after others', async () => {
    const ids = await trial.insert(3)
    await trial.database.rows(
      `UPDATE pawl.staged_jobs SET attempts = 3, claim = gen_random_uuid(), claim_until = clock_timestamp(),
              run_after = clock_timestamp() WHERE id = $1`,
      [ids[0]],
    )
    const inbox = new Inbox()
    const relay = trial.relay({ sink: inbox })
    expect(await relay.runOnce()).toMatchObject({ delivered: 2 })
    expect(await relay.runOnce()).toMatchObject({ delivered: 1 })
    expect(inbox.ids).toEqual([ids[1], ids[2], ids[0]])
  })
})
