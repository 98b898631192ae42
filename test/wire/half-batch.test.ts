import { afterAll, expect, test } from 'vitest'
import type { Database } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { statementIn } from './wire-message.js'
import { WireRequest } from './wire-request.js'
import { prepareRides, WireRides } from './wire-ride.js'
import { LEASE_MS, SETTINGS, WireTrial } from './wire-trial.js'

/** The longest that any transaction may take. An operator would set it for the role or the database. */
const TRANSACTION_TIMEOUT_MS = 2 * LEASE_MS

/** Far beyond every time-out that the engine sets. */
const ASKED_FOR_MS = 20 * LEASE_MS

const trial = await WireTrial.open(prepareRides)
afterAll(() => trial.close())

/**
 * A phase's last statements are sent together with COMMIT. If only the first segments arrive, the server has locked the
 * key's row, waits for the rest, and counts as active: neither statement_timeout nor idle_in_transaction_session_timeout
 * ends that.
 */
test('a batch of which only the beginning arrives keeps its locks until transaction_timeout ends its transaction', async () => {
  const [{ has } = { has: false }] = (
    await trial.database.admin.query<{ has: boolean }>(
      `SELECT count(*) = 1 AS has FROM pg_settings WHERE name = 'transaction_timeout'`,
    )
  ).rows
  // Versions before PostgreSQL 17 do not have it.
  if (!has) return
  const { pipeline, inputOf } = WireRides.shipped(trial.provider)
  const request = new WireRequest(trial, pipeline, inputOf)
  const proxy = await trial.proxy()
  const struck = gate()
  const letGo = gate()
  proxy.decide = (message) => {
    if (statementIn(message) !== 'COMMIT') return 'pass'
    struck.open()
    return { hold: letGo.opened }
  }
  const server = { transaction_timeout: String(TRANSACTION_TIMEOUT_MS) }
  const one = trial.engine<Database>('one', proxy, { pipelines: [pipeline], defaults: SETTINGS, server })
  const other = trial.engine<Database>('other', null, { pipelines: [pipeline], defaults: SETTINGS })
  const first = request.ask(one)
  await struck.opened
  expect(await request.askUntilOver(other, ASKED_FOR_MS)).toMatchObject({ type: 'completed' })
  letGo.open()
  await first
  expect([...(await trial.leave(one)), ...(await trial.leave(other))]).toEqual([])
})
