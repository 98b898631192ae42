import { randomUUID } from 'node:crypto'
import { createBackground, type Delivery, type JobToDeliver, type Sink } from '@pawl/core'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { parentNames } from '../support/parent-names.js'
import { gate } from '../support/signals.js'
import { counts, DELIVERED, failed, Inbox, RelayTrial, stageJobs } from '../support/relay-trial.js'
import { TestDatabase } from '../support/test-database.js'

const AN_HOUR_MS = 3_600_000

let trial: RelayTrial
beforeEach(async () => {
  trial = new RelayTrial(await TestDatabase.createNew())
})
afterEach(() => trial.end())

describe('while the sink works', () => {
  test('no connection is held and no transaction is open', async () => {
    const application_name = `relay_${randomUUID()}`
    const pool = trial.database.pool({ max: 1, application_name })
    await trial.insert(1)
    let seen: unknown
    const inbox = new Inbox(async () => {
      const backends = await trial.database.rows(
        'SELECT state, xact_start IS NOT NULL AS in_transaction FROM pg_stat_activity WHERE application_name = $1',
        [application_name],
      )
      seen = { out: pool.totalCount - pool.idleCount, waiting: pool.waitingCount, backends }
      return DELIVERED
    })
    expect(await trial.relay({ sink: inbox }, { pool }).runOnce()).toMatchObject({ delivered: 1 })
    expect(seen).toEqual({ out: 0, waiting: 0, backends: [{ state: 'idle', in_transaction: false }] })
  })

  test('requests, the completer and other relays on the same pool go on', async () => {
    const pool = trial.database.pool({ max: 1 })
    const engine = trial.engine({ pool })
    const slow = new Inbox(() => new Promise(() => {}))
    const quick = new Inbox()
    const background = createBackground({
      engine,
      completer: {},
      reaper: false,
      relay: [
        { sink: slow, names: ['slow'], pollMs: AN_HOUR_MS },
        { sink: quick, names: ['quick'], pollMs: AN_HOUR_MS },
      ],
    })
    onTestFinished(() => background.stop({ timeoutMs: 0 }))
    const [relayOfSlow, relayOfQuick] = background.relays
    await trial.stage([{ name: 'slow' }, { name: 'quick' }], engine)
    relayOfSlow?.start()
    await slow.arrived(1)
    const enqueued = await engine.enqueue(stageJobs, {
      scope: 'tests',
      key: randomUUID(),
      input: { jobs: [{ name: 'quick' }] },
    })
    expect(enqueued.type).toBe('enqueued')
    expect(await background.completer?.runOnce()).toMatchObject({ completed: 1 })
    expect(await relayOfQuick?.runOnce()).toMatchObject({ delivered: 2 })
    expect(slow.got).toHaveLength(1)
  })

  test('jobs that are delivered alone do not take the pool from requests', async () => {
    const pool = trial.database.pool({ max: 10 })
    await trial.insert(50)
    await trial.database.rows('UPDATE pawl.staged_jobs SET attempts = 3')
    let most = 0
    const probe = () => {
      most = Math.max(most, pool.totalCount - pool.idleCount + pool.waitingCount)
    }
    const round = await trial.relay({ sink: new Inbox() }, { pool, probe }).runOnce()
    expect(round).toEqual(counts({ claimed: 50, delivered: 50 }))
    expect(most).toBe(1)
  })
})

const everySecond = ({ payload }: JobToDeliver): Delivery =>
  Number(payload) % 2 === 0 ? DELIVERED : failed()

async function statementsOf(answer: (job: JobToDeliver) => Delivery, alone = 0): Promise<string[]> {
  await trial.insert(20)
  await trial.database.rows(
    'UPDATE pawl.staged_jobs SET attempts = 3 WHERE id IN (SELECT id FROM pawl.staged_jobs LIMIT $1)',
    [alone],
  )
  const steps: string[] = []
  const probe = ({ step, when }: { step: string; when: string }) => {
    if (when === 'before') steps.push(step)
  }
  await trial.relay({ sink: new Inbox(answer) }, { probe }).runOnce()
  return steps
}

describe('the statements of', () => {
  test('a round of deliveries are one claim and one delete', async () => {
    expect(await statementsOf(() => DELIVERED)).toEqual(['claim_jobs', 'delete_jobs'])
  })

  test('a round of failures are one claim and one return', async () => {
    expect(await statementsOf(() => failed())).toEqual(['claim_jobs', 'return_jobs'])
  })

  test('a mixed round are one of each', async () => {
    expect(await statementsOf(everySecond)).toEqual(['claim_jobs', 'delete_jobs', 'return_jobs'])
  })

  test('a round grow by one for each job that is delivered alone', async () => {
    const steps = await statementsOf(() => DELIVERED, 2)
    expect(steps).toEqual(['claim_jobs', 'delete_jobs', 'delete_jobs', 'delete_jobs'])
  })

  test('a round of deliveries of several scopes are the same, if they end together', async () => {
    await trial.insert(20)
    await trial.database.rows(`UPDATE pawl.staged_jobs SET scope = 's-' || seq`)
    const steps: string[] = []
    const probe = ({ step, when }: { step: string; when: string }) => {
      if (when === 'before') steps.push(step)
    }
    await trial.relay({ sink: new Inbox(), concurrency: 20 }, { probe }).runOnce()
    expect(steps).toEqual(['claim_jobs', 'delete_jobs'])
  })

  test('a round without work are one claim', async () => {
    const steps: string[] = []
    const probe = ({ step }: { step: string }) => void steps.push(step)
    await trial.relay({ sink: new Inbox() }, { probe }).runOnce()
    expect(steps).toEqual(['claim_jobs', 'claim_jobs'])
  })
})

/** The statements of a started relay that delivers 1,000 jobs of so many scopes, by name, and its round trips. The first scope may hang. */
async function costOfThousand(scopes: number, { hangs = false } = {}) {
  await trial.insert(1_000)
  await trial.database.rows(`UPDATE pawl.staged_jobs SET scope = 's-' || seq % $1`, [scopes])
  const cost: Record<string, number> = { trips: 0 }
  const probe = ({ step, when }: { step: string; when: string }) => {
    const what = when === 'before' ? step : 'trips'
    cost[what] = (cost[what] ?? 0) + 1
  }
  const [others, letGo] = [gate(), gate()]
  let left = hangs ? 1_000 - 1_000 / scopes : 1_000
  const sink: Sink = {
    async deliver(jobs) {
      if (hangs && Number(jobs[0]?.payload) % scopes === 1) await letGo.opened
      else left -= jobs.length
      if (left === 0) others.open()
      return jobs.map(() => DELIVERED)
    },
  }
  const relay = trial.relay({ sink, pollMs: AN_HOUR_MS }, { probe })
  relay.start()
  await others.opened
  letGo.open()
  await relay.stop()
  return cost
}

describe('a thousand jobs', () => {
  // Each scope has a delivery of its own, and yet a claim gets as many jobs as one delivery may have.
  test('of 1000 scopes take ten claims and ten deletes', async () => {
    expect(await costOfThousand(1_000)).toEqual({ claim_jobs: 10, delete_jobs: 10, trips: 20 })
  })

  // Before those that had a turn have another one, it looks for others: once for all of them.
  test.each([500, 40])('of %i scopes take one look more for others', async (scopes) => {
    const cost = await costOfThousand(scopes)
    expect(cost).toEqual({ claim_jobs: 11, find_due_by_scope: 1, delete_jobs: 10, trips: 22 })
  })

  // As long as not all that is due is looked at, each claim also looks for scopes behind it: once, however many it goes past.
  test.each([1, 7])('of %i scopes take one look more for each claim', async (scopes) => {
    const { trips } = await costOfThousand(scopes)
    expect(trips).toBeLessThanOrEqual(30)
  })

  test('take a few more while a scope hangs, and one for what hung', async () => {
    const { trips } = await costOfThousand(500, { hangs: true })
    expect(trips).toBeLessThanOrEqual(30)
  })
})

describe('plans, with 20,000 jobs waiting', () => {
  interface Plan {
    readonly 'Node Type': string
    readonly 'Relation Name'?: string
    readonly 'Index Name'?: string
    readonly Plans?: readonly Plan[]
  }
  interface Sent {
    readonly text: string
    readonly values?: readonly unknown[]
  }

  function record(pool: pg.Pool): Sent[] {
    const sent: Sent[] = []
    pool.on('connect', (client) => {
      const recorded = client as unknown as { query: (config: Sent, ...more: unknown[]) => unknown }
      const query = recorded.query.bind(client)
      recorded.query = (config, ...more) => {
        if (!/^(BEGIN|END|ROLLBACK)/.test(config.text)) sent.push(config)
        return query(config, ...more)
      }
    })
    return sent
  }

  const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]

  async function indexesOf({ text, values = [] }: Sent): Promise<(string | undefined)[]> {
    const [row] = await trial.database.rows<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `EXPLAIN (FORMAT JSON) ${text}`,
      [...values],
    )
    const nodes = flatten(row?.['QUERY PLAN'][0].Plan as Plan)
    const scans = nodes.filter((node) => node['Index Name'] !== undefined || node['Node Type'] === 'Seq Scan')
    const parentOf = await parentNames(trial.database)
    return [...new Set(scans.map((scan) => parentOf(scan['Index Name'] ?? scan['Node Type'])))].toSorted()
  }

  test.each([
    ['of any name', undefined],
    ['of one name', ['job']],
  ])('jobs %s are claimed, deleted and returned by indexes', async (_, names) => {
    await trial.insert(20_000)
    // Of many scopes: where tables are divided by scope, no part of them is empty.
    await trial.database.rows(`UPDATE pawl.staged_jobs SET scope = 's-' || seq % 64`)
    await trial.database.rows('VACUUM ANALYZE pawl.staged_jobs')
    const pool = trial.database.pool({ max: 1 })
    const sent = record(pool)
    const relay = trial.relay(
      { sink: new Inbox(everySecond), ...(names && { names }) },
      { pool, pipelining: false },
    )
    await relay.runOnce()
    // What is about the jobs of one scope is sent for each scope.
    const aboutJobs = [...new Map(sent.map((one) => [one.text, one])).values()].filter(({ text }) =>
      text.includes('staged_jobs'),
    )
    expect(aboutJobs).toHaveLength(3)
    const indexes = await Promise.all(aboutJobs.map(indexesOf))
    expect(indexes).toEqual([
      ['staged_jobs_pkey', 'staged_jobs_waiting'],
      ['staged_jobs_pkey'],
      ['staged_jobs_pkey'],
    ])
  })
})
