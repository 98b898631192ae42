import { afterAll, expect, test, vi } from 'vitest'
import { amountOf, SEED } from '../support/amounts.js'
import { conclude } from './conclude.js'
import { judgeRequests } from './judge-requests.js'
import {
  FACT_TABLES,
  inputsOf,
  judged,
  planPipelines,
  plannedRequest,
  prepareFacts,
} from './planned-requests.js'
import { RandomNumbers } from './random-numbers.js'
import { randomStrikes } from './random-strikes.js'
import { several } from './sweep.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { LEASE_MS, SETTINGS, WireTrial } from './wire-trial.js'

const CASES = amountOf('wireCases')
const AT_ONCE = 8

/** One message in this many is struck; a pipeline of several phases has some hundred. */
const ONE_IN = 50

/** How long a client asks while faults go on: several leases. */
const CLIENT_ASKS_MS = 5 * LEASE_MS

/** Several times what a case takes on a busy machine. */
vi.setConfig({ testTimeout: 90_000 + CASES * 3_000 })

const trial = await WireTrial.open(prepareFacts)
afterAll(() => trial.close())

test('any pipeline ends as the reference model says, with faults at any of its messages', async () => {
  const startedAt = performance.now()
  const planned = planPipelines(SEED, CASES, trial.provider)
  const inputs = inputsOf(SEED, CASES)
  const mark = await trial.database.mark()
  let struck = 0
  const cases = await several(planned, AT_ONCE, async (one) => {
    const at = planned.indexOf(one)
    const each = plannedRequest(trial, one, inputs[at] ?? null)
    const random = new RandomNumbers(SEED + at)
    const proxy = await trial.proxy()
    proxy.decide = randomStrikes(random, ONE_IN, () => void struck++)
    const sending = { pipelining: !random.oneIn(4), preparedStatements: random.oneIn(2) }
    const { pipeline } = one
    const by = trial.engine('one', proxy, { pipelines: [pipeline], defaults: SETTINGS, ...sending })
    await each.request.askUntilOver(by, CLIENT_ASKS_MS)
    proxy.decide = null
    return { ...each, at, left: await trial.leave(by) }
  })
  const rounds = await conclude(
    trial,
    cases.map(({ request }) => request),
    planned.map(({ pipeline }) => pipeline),
  )
  const caseOf = new Map(cases.map(({ at, request }) => [request.scope, at]))
  const broken = [
    ...(await judgeRequests(trial, mark, cases.map(judged), rounds)).map(
      ({ scope, rule, detail }) => `case ${caseOf.get(scope)}, ${rule}: ${detail}`,
    ),
    ...cases.flatMap(({ at, left }) => left.map(({ rule, detail }) => `case ${at}, ${rule}: ${detail}`)),
    ...[...(await unrecordedRows(trial.database, FACT_TABLES)), ...(await trial.leftovers())].map(
      ({ rule, detail }) => `${rule}: ${detail}`,
    ),
  ]
  const seconds = (performance.now() - startedAt) / 1_000
  console.log(`seed ${SEED}: ${CASES} pipelines, ${struck} faults, ${seconds.toFixed(1)} s`)
  expect(broken).toEqual([])
})
