import { afterAll, expect, test } from 'vitest'
import type { FactDatabase } from '../property/pipelines/fact-tables.js'
import { judgeRequests } from './judge-requests.js'
import { parallelPipeline } from './parallel-pipeline.js'
import { FACT_TABLES, judged, plannedRequest, prepareFacts } from './planned-requests.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { LEASE_MS, SETTINGS, WireTrial } from './wire-trial.js'

/** Enough tries for each phase to fail as often as it is planned to, and then to succeed. */
const ASKED_FOR_MS = 20 * LEASE_MS

const trial = await WireTrial.open(prepareFacts)
afterAll(() => trial.close())

test.each([
  { pipelining: true, preparedStatements: false },
  { pipelining: true, preparedStatements: true },
  { pipelining: false, preparedStatements: false },
])('I15 holds when a phase sends several queries at once and one of them fails, with %o', async (sending) => {
  const planned = parallelPipeline(trial.provider)
  const { pipeline } = planned
  const mark = await trial.database.mark()
  const { request } = plannedRequest(trial, planned, null)
  const one = trial.engine<FactDatabase>('one', await trial.proxy(), {
    pipelines: [pipeline],
    defaults: SETTINGS,
    ...sending,
  })
  await request.askUntilOver(one, ASKED_FOR_MS)
  const left = await trial.leave(one)
  await trial.relay()
  const broken = [
    ...left,
    ...(await judgeRequests(trial, mark, [judged({ planned, request })], 0)),
    ...(await unrecordedRows(trial.database, FACT_TABLES)),
    ...(await trial.leftovers()),
  ]
  expect(broken.map(({ rule, detail }) => `${rule}: ${detail}`)).toEqual([])
  await trial.clear()
})
