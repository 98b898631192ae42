import type { ProviderFault } from '../../packages/crash-kit/src/provider/provider-fault.js'
import type { FactDatabase } from '../property/pipelines/fact-tables.js'
import { conclude } from './conclude.js'
import { type Broken, judgeRequests } from './judge-requests.js'
import {
  FACT_TABLES,
  inputsOf,
  judged,
  planPipelines,
  type PlannedPipeline,
  type PlannedRequest,
  plannedRequest,
} from './planned-requests.js'
import type { ProtocolProxy } from './protocol-proxy.js'
import { RandomNumbers } from './random-numbers.js'
import { randomStrikes } from './random-strikes.js'
import { several } from './sweep.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { LEASE_MS, type PlainEngine, SETTINGS, type WireTrial } from './wire-trial.js'

export interface StormOptions {
  readonly seed: number
  /** How many requests there are, and how many run at the same time. */
  readonly requests: number
  readonly atOnce: number
  /** How many random pipelines they are for. */
  readonly pipelines: number
  /** One message in this many is struck. */
  readonly oneIn: number
  /** Pipelines beside the random ones. */
  readonly more?: readonly PlannedPipeline[]
}

/** What a storm did. */
export interface Storm {
  readonly requests: number
  readonly finished: number
  readonly stuck: number
  /** Faults that struck, by their kind. */
  readonly struck: ReadonlyMap<string, number>
  readonly broken: readonly Broken[]
  readonly describe: (scope: string) => string
}

/** How long a client asks before it gives up, and the completer does the rest. */
const CLIENT_ASKS_MS = 4 * LEASE_MS

/** How often a backend is terminated from another connection, and the provider is told to misbehave. */
const TERMINATE_EVERY_MS = 60
const PROVIDER_EVERY_MS = 15

const PROVIDER_FAULTS: readonly [ProviderFault, ...ProviderFault[]] = [
  'timeoutBefore',
  'timeoutAfter',
  'cutBefore',
  'cutAfter',
  'cutBefore',
  'cutAfter',
  'tooMany',
  'serverError',
  'unavailable',
  'malformed',
]

/** One client in this many sends its request twice at once. */
const DUPLICATES_ONE_IN = 3

/**
 * Many requests at once on two plain engines with all services, while the proxy strikes at random messages, backends
 * are terminated and the provider fails. Then faults stop, everything has to end, and everything is judged.
 */
export async function runStorm(trial: WireTrial, options: StormOptions): Promise<Storm> {
  const random = new RandomNumbers(options.seed)
  const struck = new Map<string, number>()
  const count = (kind: string): void => void struck.set(kind, (struck.get(kind) ?? 0) + 1)
  const planned = [...planPipelines(options.seed, options.pipelines, trial.provider), ...(options.more ?? [])]
  const pipelines = planned.map(({ pipeline }) => pipeline)
  const requests = inputsOf(options.seed, options.requests).map((input, at) =>
    plannedRequest(trial, planned[at % planned.length] as PlannedPipeline, input),
  )
  const mark = await trial.database.mark()
  const proxy = await trial.proxy()
  const engines = [
    openEngine(trial, 'a', proxy, pipelines, { pipelining: true }),
    openEngine(trial, 'b', proxy, pipelines, { pipelining: true, preparedStatements: random.oneIn(2) }),
  ] as const
  const services = engines.map(({ engine }) =>
    trial.core.createBackground({
      engine,
      completer: { pollMs: 50 },
      relay: { sink: trial.sink(), pollMs: 50 },
      reaper: { pollMs: 200 },
    }),
  )
  proxy.decide = randomStrikes(random, options.oneIn, (strike) => count(strike))
  const aside = strikeFromAside(trial, random, count)
  for (const service of services) service.start()
  await several(requests, options.atOnce, async ({ request }) => {
    const senders = random.oneIn(DUPLICATES_ONE_IN) ? 2 : 1
    const asked = Array.from({ length: senders }, () =>
      request.askUntilOver(random.pick(engines), CLIENT_ASKS_MS),
    )
    await Promise.all(asked)
  })
  await aside.stop()
  proxy.decide = null
  await Promise.all(services.map((service) => service.stop()))
  const violations = (await Promise.all(engines.map((each) => trial.leave(each)))).flat()
  const rounds = await conclude(
    trial,
    requests.map(({ request }) => request),
    pipelines,
  )
  const broken = [
    ...(await judgeRequests(trial, mark, requests.map(judged), rounds)),
    ...[
      ...violations,
      ...(await unrecordedRows(trial.database, FACT_TABLES)),
      ...(await trial.leftovers()),
    ].map((violation) => ({ ...violation, scope: '' })),
  ]
  const ends = await countEnds(trial)
  await proxy.close()
  await trial.clear()
  return { requests: requests.length, ...ends, struck, broken, describe: describeOf(requests) }
}

function openEngine(
  trial: WireTrial,
  name: string,
  proxy: ProtocolProxy,
  pipelines: readonly PlannedPipeline['pipeline'][],
  sending: { readonly pipelining: boolean; readonly preparedStatements?: boolean },
): PlainEngine<FactDatabase> {
  const defaults = SETTINGS
  return trial.engine<FactDatabase>(name, proxy, { pipelines, defaults, connections: 12, ...sending })
}

/** Faults that need no message. */
function strikeFromAside(
  trial: WireTrial,
  random: RandomNumbers,
  count: (kind: string) => void,
): { stop(): Promise<void> } {
  const { admin, id } = trial.database
  const armed = new Set<ReturnType<WireTrial['controls']['arm']>>()
  const provider = setInterval(() => {
    const fault = random.pick(PROVIDER_FAULTS)
    const arming = trial.controls.arm(fault)
    armed.add(arming)
    void arming.struck.then(() => {
      armed.delete(arming)
      count(`provider ${fault}`)
    })
    // A fault that nobody has met by now is replaced by the next, or they would pile up.
    for (const each of [...armed].slice(0, -2)) {
      each.disarm()
      armed.delete(each)
    }
  }, PROVIDER_EVERY_MS)
  let terminating: Promise<unknown> = Promise.resolve()
  const backends = setInterval(() => {
    terminating = admin
      .query<{ ended: boolean }>(
        `SELECT pg_terminate_backend(pid) AS ended FROM (
           SELECT pid FROM pg_stat_activity WHERE application_name = ANY ($1) ORDER BY random() LIMIT 1) AS one`,
        [[`${id}/a`, `${id}/b`]],
      )
      .then(({ rows }) => {
        if (rows[0]?.ended === true) count('terminated')
      })
  }, TERMINATE_EVERY_MS)
  return {
    async stop() {
      clearInterval(provider)
      clearInterval(backends)
      await terminating
      for (const each of armed) each.disarm()
    },
  }
}

async function countEnds(trial: WireTrial): Promise<{ finished: number; stuck: number }> {
  const { rows } = await trial.database.admin.query<{ status: string; keys: string }>(
    `SELECT status, count(*) AS keys FROM ${trial.database.pawlSchema}.idempotency_keys GROUP BY status`,
  )
  const keys = (status: string) => Number(rows.find((row) => row.status === status)?.keys ?? 0)
  return { finished: keys('finished'), stuck: keys('stuck') }
}

function describeOf(requests: readonly PlannedRequest[]): (scope: string) => string {
  return (scope) => {
    const found = requests.find(({ request }) => request.scope === scope)
    return found === undefined
      ? ''
      : JSON.stringify({
          plan: found.planned.plan,
          input: found.request.input,
          outcomes: found.request.outcomes.length,
        })
  }
}
