import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { amountOf, firstUnlessDeep, onlyDeep } from '../support/amounts.js'
import { createRelayLedger, type RelayProcess, startRelayProcess, STRIKES } from '../support/relay-process.js'
import { counts, DELIVERED, Inbox, RelayTrial } from '../support/relay-trial.js'
import { stopped } from '../support/ride-process.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let trial: RelayTrial
let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.createNew()
  trial = new RelayTrial(database)
  await createRelayLedger(database)
})
afterEach(() => trial.end())

async function deliveries(): Promise<{ job_id: string; attempt: number }[]> {
  return database.rows(`SELECT job_id, attempt FROM ${database.businessSchema}.deliveries ORDER BY nth`)
}

/** Deliveries of jobs that had already been deleted. */
async function deliveredAfterDelete(): Promise<{ job_id: string }[]> {
  const { businessSchema: ledger } = database
  return database.rows(
    `SELECT job_id FROM ${ledger}.deliveries AS d JOIN ${ledger}.deletions AS gone USING (job_id) WHERE d.nth > gone.nth`,
  )
}

async function someLeft(): Promise<boolean> {
  const sql = 'SELECT FROM pawl.staged_jobs, pg_sleep(0.02) WHERE dead_at IS NULL LIMIT 1'
  return (await database.rows(sql)).length > 0
}

/** Resolves when no job is left to be delivered. */
async function noneLeft(): Promise<void> {
  while (await someLeft());
}

const KILLS = [
  ['between delivery and delete', 'delete_jobs:before', 2],
  ['while it delivers', 'sink:half', 1],
  ['before it claims', 'claim_jobs:before', 0],
  ['before it delivers', 'claim_jobs:after', 0],
  ['once it has delivered', 'sink:after', 2],
] as const

const FREEZES = [
  ['between delivery and delete', 'sink:after', 1],
  ['before it delivers', 'sink:before', 0],
] as const

describe('a relay process killed by SIGKILL', () => {
  // Shows I13.
  test.each(firstUnlessDeep(2, KILLS))(
    '%s has its jobs delivered again under their ids, and none is lost',
    async (_, at, delivered) => {
      const ids = await trial.insert(2)
      const { ended } = startRelayProcess(database, { at, nth: 1, signal: 'SIGKILL' })
      expect(await ended).toBe('SIGKILL')
      const first = await deliveries()
      expect(first).toEqual(ids.slice(0, delivered).map((job_id) => ({ job_id, attempt: 1 })))
      const inbox = new Inbox()
      expect(await trial.relay({ sink: inbox }).runOnce()).toMatchObject({ delivered: 2 })
      const attempt = at === 'claim_jobs:before' ? 1 : 2
      expect(inbox.got).toMatchObject(ids.map((id) => ({ id, attempt })))
      expect(await trial.rows()).toEqual([])
    },
  )

  onlyDeep(() => {
    test('after its delete does not have its jobs delivered again', async () => {
      const ids = await trial.insert(2)
      const { ended } = startRelayProcess(database, { at: 'delete_jobs:after', nth: 1, signal: 'SIGKILL' })
      expect(await ended).toBe('SIGKILL')
      expect(await trial.rows()).toEqual([])
      expect((await deliveries()).map(({ job_id }) => job_id)).toEqual(ids)
    })
  })
})

describe('a relay process frozen by SIGSTOP until others have taken its job over', () => {
  test.each(firstUnlessDeep(1, FREEZES))(
    '%s, wakes up, may deliver again under the same id, and deletes nothing',
    async (_, at, before) => {
      const [id] = await trial.insert(1)
      const { child, ended, rounds, stop } = startRelayProcess(database, { at, nth: 1, signal: 'SIGSTOP' })
      await stopped(child)
      expect(await deliveries()).toHaveLength(before)
      await trial.expireClaims()
      const letGo = gate()
      const inbox = new Inbox(async () => {
        await letGo.opened
        return DELIVERED
      })
      const round = trial.relay({ sink: inbox }).runOnce()
      await inbox.arrived(1)
      const report = new Promise((resolve) => {
        child.once('message', resolve)
      })
      child.kill('SIGCONT')
      await report
      expect(rounds).toEqual([counts({ claimed: 1, lost: 1 })])
      expect(await trial.rows()).toMatchObject([{ id, attempts: 2, is_claimed: true }])
      letGo.open()
      expect(await round).toEqual(counts({ claimed: 1, delivered: 1 }))
      stop()
      expect(await ended).toBe(null)
      expect([inbox.ids, await deliveries()]).toEqual([[id], [{ job_id: id, attempt: 1 }]])
    },
  )

  test('and deleted it, still delivers, which is why the id is stable', async () => {
    const [id] = await trial.insert(1)
    const strike = { at: 'sink:before', nth: 1, signal: 'SIGSTOP' } as const
    const { child, ended, stop } = startRelayProcess(database, strike)
    await stopped(child)
    await trial.expireClaims()
    expect(await trial.relay({ sink: new Inbox() }).runOnce()).toMatchObject({ delivered: 1 })
    const report = new Promise((resolve) => {
      child.once('message', resolve)
    })
    child.kill('SIGCONT')
    expect(await report).toEqual(counts({ claimed: 1, lost: 1 }))
    stop()
    expect(await ended).toBe(null)
    expect(await deliveredAfterDelete()).toEqual([{ job_id: id }])
  })
})

onlyDeep(() => {
  test('a job that kills whoever delivers it is dead after the bound, and takes nobody with it', async () => {
    const ids = await trial.insert(6)
    const killer = ids[2]
    await database.rows(`UPDATE pawl.staged_jobs SET payload = '"kill"' WHERE id = $1`, [killer])
    const lives: RelayProcess[] = []
    let end: string | null = null
    do {
      const life = startRelayProcess(
        database,
        { at: 'nowhere', nth: 1, signal: 'SIGKILL' },
        { maxAttempts: 5 },
      )
      lives.push(life)
      void noneLeft().then(life.stop, () => {})
      end = await life.ended
    } while (end === 'SIGKILL')
    expect(lives).toHaveLength(6)
    expect(await trial.rows()).toMatchObject([
      {
        id: killer,
        is_dead: true,
        last_error: 'Error: Delivery was begun 5 times, and the last one did not end.',
      },
    ])
    const others = ids.filter((id) => id !== killer)
    expect((await deliveries()).map(({ job_id }) => job_id).toSorted()).toEqual(others.toSorted())
  })
})

/** Mulberry32, which returns the same numbers for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

// PAWL_RELAY_JOBS=100000 RELAY_SEED=7 npm run test:deep -- relay/crash
const SEED = Number(process.env['RELAY_SEED'] ?? 20_240)

/** How many jobs each key stages. */
const JOBS_PER_KEY = 4
const KEYS = Math.ceil(amountOf('relayJobs') / JOBS_PER_KEY)
const JOBS = KEYS * JOBS_PER_KEY

/** The most rounds of one life, few enough for there to be several lives. A round has `ROUND` jobs. */
const LONGEST = Math.min(24, Math.ceil(JOBS / 300))
const ROUND = 100

/** Several times what a job takes on a busy machine. */
const TIMEOUT_PER_JOB_MS = 20

const manyJobs = { timeout: 90_000 + JOBS * TIMEOUT_PER_JOB_MS }
onlyDeep(() => {
  test(
    `${JOBS} jobs through two relay processes that are killed again and again (seed ${SEED})`,
    manyJobs,
    async () => {
      await database.rows(
        `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id)
     SELECT gen_random_uuid(), 's', nth, 'job', to_json(nth), keys.id
       FROM generate_series(1, ${JOBS_PER_KEY}) AS nth, (SELECT gen_random_uuid() AS id FROM generate_series(1, ${KEYS})) AS keys
      ORDER BY nth`,
      )
      const { businessSchema: ledger } = database
      await database.rows(`CREATE TABLE ${ledger}.staged AS SELECT id, key_id, seq FROM pawl.staged_jobs`)
      await database.rows('ANALYZE pawl.staged_jobs')

      const none = noneLeft()
      let kills = 0
      const running = new Set<RelayProcess>()
      const keepOneAlive = async (seed: number): Promise<void> => {
        const random = randomOf(seed)
        while (await someLeft()) {
          const at = STRIKES[random(STRIKES.length)] ?? 'sink:half'
          const life = startRelayProcess(database, { at, nth: 1 + random(LONGEST), signal: 'SIGKILL' })
          running.add(life)
          if ((await life.ended) === 'SIGKILL') kills++
          running.delete(life)
        }
      }
      const lives = [keepOneAlive(SEED), keepOneAlive(SEED + 1)]
      await none
      for (const life of running) life.stop()
      await Promise.all(lives)

      expect(await trial.rows()).toEqual([])
      // No life has more rounds than LONGEST, and at most two have ended otherwise.
      expect(kills).toBeGreaterThanOrEqual(Math.ceil(JOBS / (LONGEST * ROUND)) - 2)
      await database.rows(`CREATE INDEX ON ${ledger}.deliveries (job_id); CREATE INDEX ON ${ledger}.deletions (job_id);
    CREATE INDEX ON ${ledger}.staged (key_id); ANALYZE ${ledger}.deliveries, ${ledger}.deletions, ${ledger}.staged`)
      const [sum] = await database.rows(
        `SELECT count(*)::int AS staged, count(first)::int AS delivered, count(*) FILTER (WHERE times > 1) > 0 AS some_again
       FROM ${ledger}.staged LEFT JOIN (SELECT job_id, min(nth) AS first, count(*) AS times
                                          FROM ${ledger}.deliveries GROUP BY job_id) AS d ON d.job_id = staged.id`,
      )
      expect(sum).toEqual({ staged: JOBS, delivered: JOBS, some_again: true })
      expect(await deliveredAfterDelete()).toEqual([])
      const outOfOrder = await database.rows(
        `SELECT s.id FROM ${ledger}.staged AS s JOIN ${ledger}.deliveries AS d ON d.job_id = s.id
       JOIN ${ledger}.staged AS later ON later.key_id = s.key_id AND later.seq > s.seq
       JOIN ${ledger}.deliveries AS l ON l.job_id = later.id AND l.nth < d.nth`,
      )
      expect(outOfOrder).toEqual([])
    },
  )
})
