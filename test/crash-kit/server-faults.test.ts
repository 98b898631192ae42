import { absent, found, respond } from '@pawl/core'
import type { FakeProvider } from '@pawl/crash-kit'
import { describe, expect, test } from 'vitest'
import { type CaseResult, runCase } from '../../packages/crash-kit/src/case/run-case.js'
import { FAULTS } from '../../packages/crash-kit/src/faults/faults.js'
import type { Fault } from '../../packages/crash-kit/src/faults/fault.js'
import { parsePosition } from '../../packages/crash-kit/src/plan/named-position.js'
import { parseReplay } from '../../packages/crash-kit/src/plan/replay-line.js'
import { STEP_WORDS } from '../../packages/crash-kit/src/finding/step-words.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { pipeline, type RideInput } from '../support/rides.js'
import { openKit, type OpenedKit } from './open-kit.js'

const ALL: readonly Fault[] = Object.values(FAULTS).flat()
const faultOf = (id: string): Fault => ALL.find((fault) => fault.id === id) as Fault

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** Runs the case of a replay line, in which everything has to hold. */
async function survived({ environment, discovery }: OpenedKit, line: string): Promise<CaseResult> {
  const replay = parseReplay(line)
  if (replay.kind !== 'plan') throw new TypeError(`${line} is no plan`)
  const result = await runCase(environment, replay.plan, faultOf)
  expect(result.fired).toEqual(replay.plan.map(() => true))
  expect([...result.seen, ...judge(result.history, environment.shape, discovery.clean)]).toEqual([])
  return result
}

const linesOf = ({ timeline }: CaseResult, who: string): string[] =>
  timeline.filter((entry) => entry.who === who).map(({ what }) => what)

/** Returns the time that has passed before the first recovery. */
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

const riding = await openKit()
const asking = await openKit(asked)

const beforeStep = (step: string) => parsePosition(`any/${step}#1:before`)

describe('databaseClock', () => {
  const AT = 'charged/call#1:before'

  test('.ahead: somebody asks before the call arrives, and has to wait', async () => {
    const result = await survived(asking, `databaseClock.ahead@${AT}`)
    expect(linesOf(result, 'rival')).toContainEqual(expect.stringContaining('outcome_pending'))
    const { requests } = result.history
    expect(requests.filter(({ executed }) => executed)).toMatchObject([{ actor: 'client' }])
    // The rival asked in vain, and a later one found it.
    expect(requests.filter(({ method }) => method === 'GET').length).toBeGreaterThan(1)
  })

  test('.ahead: strikes at calls of queryable phases, unless their keys would then be too old', async () => {
    const ahead = faultOf('databaseClock.ahead')
    const position = parsePosition(AT)
    const { environment } = asking
    expect(ahead.appliesTo(position, environment.shape)).toBe(true)
    expect(ahead.appliesTo(parsePosition('charged/call#1:after'), environment.shape)).toBe(false)
    for (const guarantee of ['keyed', 'at_most_once'] as const)
      expect(
        ahead.appliesTo(position, { ...environment.shape, foreign: [{ phase: 'charged', guarantee }] }),
      ).toBe(false)
    const short = await openKit((provider) => asked(provider, HOUR_MS))
    expect(ahead.appliesTo(position, short.environment.shape)).toBe(false)
    const byEngine = await openKit(asked, { engine: { defaults: { maxAgeMs: 3 * HOUR_MS } } })
    expect(byEngine.environment.shape.maxAgeMs).toBe(3 * HOUR_MS)
    expect(ahead.appliesTo(position, byEngine.environment.shape)).toBe(true)
  })

  test('.behind: a retry gets the key when the lease would have been over, and not days later', async () => {
    const result = await survived(riding, 'databaseClock.behind@ride_created/commit#1:after')
    expect(firstPassedMs(result)).toBeLessThan(MINUTE_MS)
    expect(linesOf(result, 'retry')).toContain('gets completed, 201')
  })

  test('.behind.unattended: so does the completer', async () => {
    const result = await survived(riding, 'databaseClock.behind.unattended@ride_created/commit#1:after')
    expect(firstPassedMs(result)).toBeLessThan(MINUTE_MS)
    expect(linesOf(result, 'completer')).toContain('asked to take the key over')
    expect(linesOf(result, 'retry')).toEqual([])
  })

  test('.behind: it leaves other remains than a crash', async () => {
    const crashed = await survived(riding, 'crash@ride_created/commit#1:after')
    const behind = await survived(riding, 'databaseClock.behind@ride_created/commit#1:after')
    expect(behind.leftBehind).not.toBe(crashed.leftBehind)
  })

  test('.behind: a back-off that was set by the other clock is over as well, once its time has passed', async () => {
    const behind = 'databaseClock.behind@reserve/take_over_key#1:after'
    const result = await survived(riding, `throw@ride_created/begin#1:before; recovery 1: ${behind}`)
    const lines = linesOf(result, 'kit').filter((what) => what.includes('ms pass'))
    expect(lines.map((what) => Number.parseInt(what, 10)).every((ms) => ms < MINUTE_MS)).toBe(true)
  })

  test('.behind: leases of a day, the longest that can be set, are over as well', async () => {
    const kit = await openKit(undefined, { engine: { defaults: { leaseMs: 24 * HOUR_MS } } })
    const result = await survived(kit, 'databaseClock.behind@ride_created/commit#1:after')
    expect(linesOf(result, 'retry')).toContain('gets completed, 201')
  })
})

describe('tableLock', () => {
  test('a request that comes while the table is locked is refused by a real 55P03', async () => {
    const result = await survived(riding, 'tableLock@reserve/insert_key#1:before')
    expect(linesOf(result, 'database')).toEqual(['55P03 for client'])
    expect(linesOf(result, 'client')).toContain('gets in_flight')
    // The lock is gone, and so is its transaction.
    const { admin, id } = riding.environment.database
    const { rows } = await admin.query(
      `SELECT FROM pg_stat_activity WHERE starts_with(application_name, $1) AND state LIKE 'idle in%'`,
      [id],
    )
    expect(rows).toEqual([])
  })

  test('statements that are sent one at a time are refused as well', async () => {
    const kit = await openKit(asked, { engine: { pipelining: false } })
    const result = await survived(kit, 'tableLock@charged/declare_call#1:before')
    expect(linesOf(result, 'database')).toEqual(['55P03 for client'])
  })

  test('a round of the completer that is refused ends, and the next one goes on', async () => {
    const refused = 'tableLock@reserve/take_over_key#1:before'
    const result = await survived(
      riding,
      `disconnect.crash@ride_created/commit#1:after; recovery 1: ${refused}`,
    )
    expect(linesOf(result, 'completer').filter((what) => what === 'committed finished')).toHaveLength(1)
  })

  test('strikes only where no open transaction could have locked the table itself', async () => {
    const fault = faultOf('tableLock')
    const struck = asking.discovery.positions.filter((position) =>
      fault.appliesTo(position, asking.environment.shape),
    )
    expect(struck.map(({ text }) => text)).toEqual([
      'reserve/insert_key#1:before',
      'charged/declare_call#1:before',
    ])
    // A recovery has more. They are checked by name, because a name that no statement has any more would strike nowhere.
    const steps = [...STEP_WORDS.keys()].filter((step) =>
      fault.appliesTo(beforeStep(step), asking.environment.shape),
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
