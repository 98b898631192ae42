import { afterAll, expect, test, vi } from 'vitest'
import { amountOf, IS_DEEP, SEED } from '../support/amounts.js'
import { parallelPipeline } from './parallel-pipeline.js'
import { prepareFacts } from './planned-requests.js'
import { runStorm } from './storm.js'
import { WireTrial } from './wire-trial.js'

/** `PAWL_SOAK_FAULTS=100000` is the long run. */
const FAULTS = amountOf('soakFaults')

/** Requests of one storm. What they wrote is judged in one go, and has to fit in memory. */
const REQUESTS = Math.min(400, Math.ceil(FAULTS / 4))
const AT_ONCE = 40
const PIPELINES = 24
const ONE_IN = 40

/** Several times what a fault costs on a busy machine. */
const TIMEOUT_PER_FAULT_MS = 200
vi.setConfig({ testTimeout: 120_000 + FAULTS * TIMEOUT_PER_FAULT_MS })

/** How many findings are shown at most. */
const SHOWN = 10

const trial = await WireTrial.open(prepareFacts)
afterAll(() => trial.close())

test(`random pipelines survive ${FAULTS} faults with many requests at once, on engines as they ship`, async () => {
  const startedAt = performance.now()
  const struck = new Map<string, number>()
  const total = { storms: 0, requests: 0, finished: 0, stuck: 0, faults: 0 }
  const findings: string[] = []
  let found = 0
  while (total.faults < FAULTS) {
    const seed = SEED + total.storms
    const storm = await runStorm(trial, {
      seed,
      requests: REQUESTS,
      atOnce: AT_ONCE,
      pipelines: PIPELINES,
      oneIn: ONE_IN,
      more: [parallelPipeline(trial.provider)],
    })
    total.storms++
    for (const each of ['requests', 'finished', 'stuck'] as const) total[each] += storm[each]
    for (const [kind, times] of storm.struck) {
      struck.set(kind, (struck.get(kind) ?? 0) + times)
      total.faults += times
    }
    found += storm.broken.length
    const news = storm.broken
      .slice(0, Math.max(0, SHOWN - findings.length))
      .map(({ rule, detail, scope }) => `seed ${seed}, ${rule}: ${detail}\n  ${storm.describe(scope)}`)
    findings.push(...news)
    if (IS_DEEP || process.env['PAWL_SOAK_FAULTS'] !== undefined)
      console.log([`${sayTotal(total, startedAt)}, ${found} findings; seed ${seed}`, ...news].join('\n'))
  }
  console.log(
    [sayTotal(total, startedAt), ...[...struck].map(([kind, times]) => `  ${kind}: ${times}`)].join('\n'),
  )
  expect(findings.join('\n\n')).toBe('')
})

function sayTotal(
  {
    storms,
    requests,
    finished,
    stuck,
    faults,
  }: Record<'storms' | 'requests' | 'finished' | 'stuck' | 'faults', number>,
  startedAt: number,
): string {
  const seconds = (performance.now() - startedAt) / 1_000
  return (
    `${faults} faults (${(faults / seconds).toFixed(0)}/s), ${requests} requests in ${storms} storms, ` +
    `${finished} finished, ${stuck} stuck, ${seconds.toFixed(0)} s`
  )
}
