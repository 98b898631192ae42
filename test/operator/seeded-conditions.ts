import { seedKey } from '../support/seeded-rows.js'
import type { TestDatabase } from '../support/test-database.js'

/** Seeds keys of every condition: held, backing off, unattended (twice), stuck (twice), finished, expired, atomic. */
export async function seedAll(database: TestDatabase): Promise<void> {
  await seedKey(database, { key: 'held', leaseIn: '1 min', createdAgo: '7 min' })
  await seedKey(database, { key: 'resting', leaseIn: '-5 min', runIn: '1 min', createdAgo: '6 min' })
  await seedKey(database, { key: 'lost', leaseIn: '-3 min', createdAgo: '5 min' })
  await seedKey(database, { key: 'due', runIn: '-2 min', createdAgo: '4 min', recoveryPoint: 'charged' })
  await seedKey(database, {
    key: 'stuck',
    status: 'stuck',
    stuckReason: 'unknown_outcome',
    createdAgo: '9 min',
  })
  await seedKey(database, { key: 'old', status: 'stuck', version: 2, createdAgo: '3 min', scope: 'other' })
  await seedKey(database, { key: 'done', status: 'finished' })
  await seedKey(database, { key: 'over', status: 'finished', expiresIn: '-1 min' })
  await seedKey(database, {
    key: 'atomic',
    pipeline: 'atomic.post.rides',
    kind: 'atomic',
    leaseIn: '-1 h',
    createdAgo: '2 h',
  })
}
