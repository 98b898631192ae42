import { readFile } from 'node:fs/promises'
import { type DevPostgres, startPostgres } from '@pawl/dev-postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { firstUnlessDeep } from '../support/amounts.js'
import { SIZE_CONSTANTS } from '../../packages/cli/src/size/constants.js'
import { estimate, type Workload } from '../../packages/cli/src/size/estimate.js'
import { measure, type Shape } from './measured-shape.js'

/**
 * What `pawl size` reckons with, against what requests really take. Bytes and counts are compared with a PostgreSQL of our own,
 * on which nobody else writes; times with the text of the run that they come from.
 */

let postgres: DevPostgres
beforeAll(async () => {
  // No checkpoint and no vacuum of its own comes in between; whether the disk is waited for changes no byte.
  const settings = { fsync: 'off', autovacuum: 'off', checkpoint_timeout: '1h', max_wal_size: '4GB' }
  postgres = await startPostgres({ settings })
}, 60_000)
afterAll(() => postgres.stop())

const REQUESTS = 2_000
const TIMEOUT_MS = 120_000

const usual: Shape = { locals: 1, calls: 1, jobs: 1, inputBytes: 100, bodyBytes: 100, commits: 'each' }

function loadOf(shape: Shape): Workload {
  const DAY_SECONDS = 86_400
  return {
    ...shape,
    rate: 100,
    replayRate: 0,
    retentionSeconds: DAY_SECONDS,
    effectRetentionSeconds: DAY_SECONDS,
    roundTripMs: 1,
  }
}

/** Within this share of what was measured. */
function expectClose(reckoned: number, measured: number, tolerance: number, what: string): void {
  expect(Math.abs(reckoned - measured) / measured, `${what}: ${reckoned} for ${measured}`).toBeLessThan(
    tolerance,
  )
}

/** Shapes differ by a few bytes of state in each phase. */
const LOG_TOLERANCE = 0.12

/** A vacuum leaves more or less room behind, depending on when it comes; small indexes have a page to spare. */
const DISK_TOLERANCE = 0.3

describe('statements, round trips, and bytes of the log', () => {
  test.each<readonly [string, Partial<Shape>]>(
    firstUnlessDeep(4, [
      ['a ride', {}],
      ['a ride with fewest commits', { commits: 'fewest' }],
      ['three local phases', { locals: 3 }],
      ['three local phases with fewest commits', { locals: 3, commits: 'fewest' }],
      ['no call', { calls: 0 }],
      ['two calls with fewest commits', { calls: 2, commits: 'fewest' }],
      ['two jobs', { jobs: 2 }],
      ['a body of 8 kB', { bodyBytes: 8_000 }],
      ['an input of 1 kB', { inputBytes: 1_000 }],
    ]),
  )(
    '%s',
    async (_name, more) => {
      const shape = { ...usual, ...more }
      const measured = await measure(postgres, shape, REQUESTS / 5)
      const { statements, roundTrips, log } = estimate(loadOf(shape))
      expect({ statements, roundTrips }).toEqual({
        statements: measured.statements,
        roundTrips: measured.roundTrips,
      })
      expectClose(log.perRequest, measured.logBytes, LOG_TOLERANCE, 'log')
      // A replay writes nothing; a page that it tidies up may be logged.
      expect(measured.replayLogBytes).toBeLessThan(SIZE_CONSTANTS.logOfReserveAndFinish.value / 10)
    },
    TIMEOUT_MS,
  )
})

describe('bytes on the disk', () => {
  test.each<readonly [string, Partial<Shape>]>(
    firstUnlessDeep(1, [
      ['a ride', {}],
      ['a body of 2 kB', { bodyBytes: 2_000 }],
      ['a body of 8 kB', { bodyBytes: 8_000 }],
    ]),
  )(
    '%s',
    async (_name, more) => {
      const shape = { ...usual, ...more }
      const { keys, effects, jobs, entries } = await measure(postgres, shape, REQUESTS)
      const reckoned = estimate(loadOf(shape))
      const { disk } = reckoned
      expectClose(disk.keyTable / reckoned.keys, keys.table, DISK_TOLERANCE, 'keys')
      // It has entries of keys that are under way only, and of those that have finished since the last vacuum.
      const underWay = entries['idempotency_keys_unfinished'] ?? 0
      expectClose(disk.keyIndexes / reckoned.keys, keys.indexes - underWay, DISK_TOLERANCE, 'indexes of keys')
      expectClose(disk.effectTable / reckoned.effects, effects.table, DISK_TOLERANCE, 'effects')
      expectClose(
        disk.effectIndexes / reckoned.effects,
        effects.indexes,
        DISK_TOLERANCE,
        'indexes of effects',
      )
      const { uniqueEntry, idEntry, effectEntry } = SIZE_CONSTANTS
      expectClose(uniqueEntry.value, entries['idempotency_keys_scope_key_key'] ?? 0, DISK_TOLERANCE, 'entry')
      expectClose(idEntry.value, entries['idempotency_keys_pkey'] ?? 0, DISK_TOLERANCE, 'entry of the id')
      expectClose(effectEntry.value, entries['effects_pkey'] ?? 0, DISK_TOLERANCE, 'entry of an effect')
      expectClose(SIZE_CONSTANTS.jobRow.value, jobs.table + jobs.indexes, DISK_TOLERANCE, 'jobs')
    },
    TIMEOUT_MS,
  )
})

describe('times are those of the published run', async () => {
  const pages = {
    'bench/README.md': await readFile(new URL('../../bench/README.md', import.meta.url), 'utf8'),
    'docs/performance.md': await readFile(new URL('../../docs/performance.md', import.meta.url), 'utf8'),
  }
  const { serverCpuOfRide, nodeCpuOfRide, statementsOfRide, statementsOfReplay, roundTripsOfReplay } =
    SIZE_CONSTANTS
  const { nodeCpuOfReplay, replaysPerSecond, reapedPerSecond } = SIZE_CONSTANTS

  test('CPU of a ride, and what it sends', () => {
    const page = pages['docs/performance.md'].replaceAll(/\s+/g, ' ')
    expect(page).toContain(
      `\`fewest\` took ${nodeCpuOfRide.value} ms of Node and ${serverCpuOfRide.value} ms of PostgreSQL`,
    )
    expect(page).toContain(`| … and \`write\` | ${statementsOfRide.value} |`)
    expect(page).toContain(
      `| a replay of a finished key | ${statementsOfReplay.value} | ${roundTripsOfReplay.value} |`,
    )
  })

  test('replays and the reaper', () => {
    const page = pages['bench/README.md']
    const replays = /called as a library.*?^pawl +([\d,]+) .*?$/ms.exec(page)
    expect(replays?.[1]).toBe(replaysPerSecond.value.toLocaleString('en-US'))
    expect(replays?.[0].split(/ {2,}/).slice(-5)[0]).toBe(String(nodeCpuOfReplay.value))
    expect(page).toContain(`The reaper deleted ${reapedPerSecond.value.toLocaleString('en-US')} keys/s`)
  })

  test('every constant says where it comes from', () => {
    for (const [name, { unit, from }] of Object.entries(SIZE_CONSTANTS)) {
      expect(unit, name).not.toBe('')
      expect(from, name).not.toBe('')
    }
  })
})
