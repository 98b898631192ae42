import { absent, found, respond } from '@pawl/core'
import type { FakeProvider } from '@pawl/crash-kit'
import { describe, expect, test } from 'vitest'
import { type CaseResult, runCase } from '../../packages/crash-kit/src/case/run-case.js'
import { FAULTS } from '../../packages/crash-kit/src/faults/all.js'
import type { Fault } from '../../packages/crash-kit/src/faults/fault.js'
import { parsePosition } from '../../packages/crash-kit/src/finding/position-namer.js'
import { parseReplay } from '../../packages/crash-kit/src/finding/replay-line.js'
import { STEP_WORDS } from '../../packages/crash-kit/src/finding/step-words.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { pipeline, type RideInput } from '../support/rides.js'
import { openTrial, type Trial } from './process-trial.js'

const ALL: readonly Fault[] = Object.values(FAULTS).flat()
const faultOf = (id: string): Fault => ALL.find((fault) => fault.id === id) as Fault

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** Runs the case of a replay line, in which everything has to hold. */
async function survived({ theatre, discovery }: Trial, line: string): Promise<CaseResult> {
  const replay = parseReplay(line)
  if (replay.kind !== 'plan') throw new TypeError(`${line} is no plan`)
  const result = await runCase(theatre, replay.plan, faultOf)
  expect(result.fired).toEqual(replay.plan.map(() => true))
  expect([...result.seen, ...judge(result.history, theatre.shape, discovery.clean)]).toEqual([])
  return result
}

const linesOf = ({ timeline }: CaseResult, who: string): string[] =>
  timeline.filter((entry) => entry.who === who).map(({ what }) => what)

/** What has passed before the first recovery. */
const firstPassedMs = (result: CaseResult): number => {
  const [first] = linesOf(result, 'kit').flatMap((what) => /^(\d+) ms pass/.exec(what)?.[1] ?? [])
  return Number(first)
}

const asked = (provider: FakeProvider, maxAgeMs?: number) =>
  pipeline<RideInput>({
    name: 'asked',
    version: 1,
    ...(maxAgeMs === undefined ? {} : { maxAgeMs }),
  })
    .foreign('charged', {
      guarantee: 'queryable',
      call: ({ input, idempotencyKey, signal }) =>
        provider.send({ amount: input.amount }, { idempotencyKey, signal }),
      reconcile: async ({ idempotencyKey }) => {
        const charge = await provider.find(idempotencyKey)
        return charge === null ? absent() : found({ id: charge.id })
      },
      settle: ({ result }) => ({ charge: result.id }),
    })
    .finish(({ state }) => respond(201, { charge: state.charge }))

const riding = await openTrial()
const asking = await openTrial(asked)

const beforeStep = (step: string) => parsePosition(`any/${step}#1:before`)

describe('databaseClock', () => {
  const AT = 'charged/call#1:before'

  test('.ahead: somebody asks before the call arrives, and is told to wait', async () => {
    const result = await survived(asking, `databaseClock.ahead@${AT}`)
    expect(linesOf(result, 'rival')).toContainEqual(expect.stringContaining('outcome_pending'))
    const { requests } = result.history
    expect(requests.filter(({ executed }) => executed)).toMatchObject([{ actor: 'client' }])
    // Asked in vain by the rival, and found by who came later.
    expect(requests.filter(({ method }) => method === 'GET').length).toBeGreaterThan(1)
  })

  test('.ahead: strikes at calls that can be asked about, unless their keys would be too old by it', async () => {
    const ahead = faultOf('databaseClock.ahead')
    const position = parsePosition(AT)
    const { theatre } = asking
    expect(ahead.appliesTo(position, theatre.shape)).toBe(true)
    expect(ahead.appliesTo(parsePosition('charged/call#1:after'), theatre.shape)).toBe(false)
    for (const guarantee of ['keyed', 'at_most_once'] as const)
      expect(
        ahead.appliesTo(position, { ...theatre.shape, foreign: [{ phase: 'charged', guarantee }] }),
      ).toBe(false)
    const short = await openTrial((provider) => asked(provider, HOUR_MS))
    expect(ahead.appliesTo(position, short.theatre.shape)).toBe(false)
    const byEngine = await openTrial(asked, { engine: { defaults: { maxAgeMs: 3 * HOUR_MS } } })
    expect(byEngine.theatre.shape.maxAgeMs).toBe(3 * HOUR_MS)
    expect(ahead.appliesTo(position, byEngine.theatre.shape)).toBe(true)
  })

  test('.behind: a retry gets the key when the lease would have been over, and not days later', async () => {
    const result = await survived(riding, 'databaseClock.behind@ride_created/commit#1:after')
    expect(firstPassedMs(result)).toBeLessThan(MINUTE_MS)
    expect(linesOf(result, 'retry')).toContain('is told completed, 201')
  })

  test('.behind.unattended: so does the completer', async () => {
    const result = await survived(riding, 'databaseClock.behind.unattended@ride_created/commit#1:after')
    expect(firstPassedMs(result)).toBeLessThan(MINUTE_MS)
    expect(linesOf(result, 'completer')).toContain('asked to take the key over')
    expect(linesOf(result, 'retry')).toEqual([])
  })

  test('.behind: what it leaves is not what a crash leaves', async () => {
    const crashed = await survived(riding, 'crash@ride_created/commit#1:after')
    const behind = await survived(riding, 'databaseClock.behind@ride_created/commit#1:after')
    expect(behind.leftBehind).not.toBe(crashed.leftBehind)
  })

  test('.behind: a back-off by the other clock is over as well, once its time has passed', async () => {
    const behind = 'databaseClock.behind@reserve/take_over_key#1:after'
    const result = await survived(riding, `throw@ride_created/begin#1:before; recovery 1: ${behind}`)
    const lines = linesOf(result, 'kit').filter((what) => what.includes('ms pass'))
    expect(lines.map((what) => Number.parseInt(what, 10)).every((ms) => ms < MINUTE_MS)).toBe(true)
  })

  test('.behind: leases of a day, the longest that can be set, are over as well', async () => {
    const trial = await openTrial(undefined, { engine: { defaults: { leaseMs: 24 * HOUR_MS } } })
    const result = await survived(trial, 'databaseClock.behind@ride_created/commit#1:after')
    expect(linesOf(result, 'retry')).toContain('is told completed, 201')
  })
})

describe('tableLock', () => {
  test('a request that comes while the table is locked is refused by a real 55P03, and told so', async () => {
    const result = await survived(riding, 'tableLock@reserve/insert_key#1:before')
    expect(linesOf(result, 'database')).toEqual(['55P03 for client'])
    expect(linesOf(result, 'client')).toContain('is told in_flight')
    // The lock is gone, and so is its transaction.
    const { admin, id } = riding.theatre.database
    const { rows } = await admin.query(
      `SELECT FROM pg_stat_activity WHERE starts_with(application_name, $1) AND state LIKE 'idle in%'`,
      [id],
    )
    expect(rows).toEqual([])
  })

  test('statements that are sent one by one are refused as well', async () => {
    const trial = await openTrial(asked, { engine: { pipelining: false } })
    const result = await survived(trial, 'tableLock@charged/declare_call#1:before')
    expect(linesOf(result, 'database')).toEqual(['55P03 for client'])
  })

  test('a round of the completer that is refused has ended, and the next one goes on', async () => {
    const refused = 'tableLock@reserve/take_over_key#1:before'
    const result = await survived(
      riding,
      `disconnect.crash@ride_created/commit#1:after; recovery 1: ${refused}`,
    )
    expect(linesOf(result, 'completer').filter((what) => what === 'committed finished')).toHaveLength(1)
  })

  test('strikes only where no transaction is open that could have locked the table itself', async () => {
    const fault = faultOf('tableLock')
    const struck = asking.discovery.positions.filter((position) =>
      fault.appliesTo(position, asking.theatre.shape),
    )
    expect(struck.map(({ text }) => text)).toEqual([
      'reserve/insert_key#1:before',
      'charged/declare_call#1:before',
    ])
    // In a recovery, there are more. By their names: one that no statement has any more would be struck nowhere.
    const steps = [...STEP_WORDS.keys()].filter((step) =>
      fault.appliesTo(beforeStep(step), asking.theatre.shape),
    )
    expect(steps.toSorted()).toEqual([
      'declare_call',
      'find_key',
      'find_key_by_id',
      'find_unattended_keys',
      'give_back_key',
      'insert_key',
      'mark_stuck',
      'mark_unheld_stuck',
      'raise_fence',
      'skip_phase',
      'take_over_key',
    ])
  })
})
