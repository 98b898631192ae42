import { describe, expect, test } from 'vitest'
import { judgeReplica } from '../../packages/core/src/request/judge-replica.js'

const written = { database: '7/5', timeline: 2, position: 1_000n, nowMs: 0 }
const replica = { inRecovery: true, database: '7/5', timeline: 2, position: 1_000n }

describe('a replica may answer', () => {
  test.each([1_000n, 1_001n])('once it has replayed what the primary had written: %d', (position) => {
    expect(judgeReplica({ ...replica, position }, written)).toBeNull()
  })
})

describe('a replica may not answer', () => {
  test.each([
    ['it has not replayed that much', { position: 999n }, 'further behind'],
    ['it replays nothing', { position: null }, 'further behind'],
    ['it is a primary', { inRecovery: false, position: 2_000n }, 'not a replica'],
    ['it is a copy of another database', { database: '7/6', position: 2_000n }, 'another database'],
    ['it is on an earlier timeline', { timeline: 1, position: 2_000n }, 'another timeline'],
    ['it is on a later timeline', { timeline: 3, position: 2_000n }, 'another timeline'],
  ])('if %s', (_, different, why) => {
    expect(judgeReplica({ ...replica, ...different }, written)).toContain(why)
  })
})
