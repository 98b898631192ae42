import type { Operator } from '@pawl/core'
import type { ReadingSource } from '@pawl/opentelemetry'
import type { TestDatabase } from '../support/test-database.js'

export function readingOf(operator: Operator, database: TestDatabase): ReadingSource {
  return {
    reading: async () => {
      const { unfinished, stuckBy, finished, expired, oldestUnattended, jobs } = await operator.status()
      const [oldest] = await database.rows<{ ms: number | null }>(
        `SELECT (extract(epoch FROM clock_timestamp() - min(expires_at)) * 1000)::float AS ms FROM pawl.idempotency_keys
          WHERE status = 'finished' AND expires_at <= clock_timestamp()`,
      )
      return {
        unfinished,
        stuckBy,
        finished,
        expired,
        oldestUnattendedMs: oldestUnattended?.sinceMs ?? null,
        oldestExpiredMs: oldest?.ms ?? null,
        jobs: { waiting: jobs.waiting.count, dead: jobs.dead.count, oldestDueMs: jobs.oldestDueMs },
        tables: [{ table: 'idempotency_keys', bytes: 1, rows: 1, deadRows: 0 }],
      }
    },
  }
}
