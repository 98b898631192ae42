import { afterAll, beforeAll, expect, test } from 'vitest'
import { SessionPool } from '../../packages/core/src/driver/session-pool.js'
import { findKeyOnReplica } from '../../packages/core/src/storage/keys/find-key-on-replica.js'
import { tablesIn } from '../../packages/core/src/storage/tables.js'
import { ReplicaTrial } from '../support/replica-trial.js'
import { ReplicatedServer } from '../support/replicated-server.js'
import { Spread } from '../../packages/core/src/driver/spread.js'
import { gate } from '../support/signals.js'

let servers: ReplicatedServer
beforeAll(async () => {
  servers = await ReplicatedServer.start(1)
})
afterAll(() => servers.stop())

test('the position is from before the row: what the replica replays in between is missing in the position, not in the row', async () => {
  const trial = await ReplicaTrial.create(servers)
  await trial.finished()
  await servers.caughtUp()
  const between = { reached: gate(), left: gate() }
  const steps: string[] = []
  const sessions = new SessionPool(trial.replicaPool(), {
    statementDeadlineMs: 60_000,
    lockTimeoutMs: 60_000,
    acquireTimeoutMs: 60_000,
    // One message for each statement, so that the test can stop between them.
    pipelining: false,
    spread: new Spread(),
    learn: () => Promise.resolve(),
    preparedStatements: false,
    probe: ({ step, when }) => {
      if (when === 'before') steps.push(step)
      if (when !== 'before' || steps.length !== 2) return undefined
      between.reached.open()
      return between.left.opened
    },
  })
  const tables = tablesIn(trial.database.schema, 'test')
  const looking = sessions.with('replica', (session) =>
    findKeyOnReplica({ session, tables }, trial.scope, trial.key),
  )
  await between.reached.opened
  await trial.database.rows('DELETE FROM pawl.idempotency_keys')
  const [deleted] = await servers.primary.rows<{ bytes: string }>(
    `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text AS bytes`,
  )
  await servers.caughtUp()
  between.left.open()
  const { at, row } = await looking
  expect(steps).toEqual(['read_replay_position', 'find_key'])
  expect(row).toBeNull()
  expect(at.position).toBeLessThan(BigInt(deleted?.bytes ?? 0))
  await trial.drop()
})
