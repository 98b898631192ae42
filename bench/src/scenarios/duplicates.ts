import { setTimeout as delay } from 'node:timers/promises'
import { CONFLICT, CREATED } from '../business.js'
import type { ContenderName } from '../contenders/registry.js'
import { alternate } from '../measure/rounds.js'
import { type Sample, takeSample } from '../measure/sample.js'
import { linesOf, type Section } from '../report/section.js'
import type { Arena } from '../run/arena.js'
import type { Entrant } from '../run/entrant.js'
import type { LoadPlan } from '../run/load.js'
import { newKeys } from './keyed-load.js'
import type { Mode, Scenario, Stage } from './scenario.js'

/** Those that answer a duplicate at once. The others keep it until the first has ended. */
const CONTENDERS: Readonly<Record<Mode, readonly ContenderName[]>> = {
  quick: ['pawl', 'hand-written'],
  full: ['pawl', 'pawl-fastify', 'hand-written', 'original'],
}

const BASELINE = 'hand-written'
const CLIENTS = 32

/** Fewer than the pool has connections: in the original, each of them keeps one. */
const RUNNING_KEYS = 8

const PLANS: Readonly<Record<Mode, { rounds: number; leadInMs: number; windowMs: number; delayMs: number }>> =
  {
    // The provider takes longer than the round: the firsts are in their calls for all of it.
    quick: { rounds: 1, leadInMs: 100, windowMs: 500, delayMs: 1_000 },
    full: { rounds: 3, leadInMs: 300, windowMs: 1_200, delayMs: 2_500 },
  }

const POLL_MS = 5
const ARRIVAL_LIMIT_MS = 10_000

/** Requests whose first is in its call. The right answer is 409, at once. */
export const duplicates: Scenario = {
  title: 'duplicates of running keys',
  run: (stage) =>
    runDuplicates(stage, {
      name: 'duplicates',
      title: 'answered with 409',
      names: stage.among(CONTENDERS[stage.mode]),
      baseline: BASELINE,
      notes: [
        'DBOS, openworkflow, Restate and Absurd hold a duplicate until the first has ended: they have no such answer.',
      ],
    }),
}

interface Comparison {
  readonly name: string
  readonly title: string
  readonly names: readonly ContenderName[]
  readonly baseline: ContenderName
  readonly notes: readonly string[]
}

export async function runDuplicates(
  { arena, mode, say }: Stage,
  { name, title, names, baseline, notes }: Comparison,
): Promise<Section[]> {
  if (names.length === 0) return []
  say(name)
  const { rounds, leadInMs, windowMs, delayMs } = PLANS[mode]
  const entrants = await Promise.all(names.map((each) => arena.enter(each, { providerDelayMs: delayMs })))
  const plan: LoadPlan = {
    clients: CLIENTS,
    leadInMs,
    windowMs,
    measure: 'window',
    keys: null,
    expectedStatus: CONFLICT,
  }
  const take = async (entrant: Entrant): Promise<Sample> => {
    if (entrant.label !== 'select-route')
      return withRunningKeys(arena, entrant, (keys) => takeSample(arena, entrant, { ...plan, keys }))
    const keys = newKeys(RUNNING_KEYS)
    await entrant.control('insert', keys)
    return takeSample(arena, entrant, { ...plan, keys, expectedStatus: CREATED })
  }
  // This round is not measured; it warms them up.
  await alternate(entrants, 1, take)
  const samples = await alternate(entrants, rounds, take)
  await Promise.all(entrants.map((entrant) => entrant.close()))
  return [
    {
      name,
      title: `Duplicates of ${RUNNING_KEYS} running keys, ${CLIENTS} clients, ${title}`,
      unit: 'requests/s',
      compared: 'requestsPerSecond',
      baseline,
      lines: linesOf(samples, 'requestsPerSecond', baseline),
      notes,
    },
  ]
}

/** Starts requests, waits until all of them are in their calls, and after the work until all of them have ended. */
async function withRunningKeys(
  { provider }: Arena,
  entrant: Entrant,
  work: (keys: readonly string[]) => Promise<Sample>,
): Promise<Sample> {
  const keys = newKeys(RUNNING_KEYS)
  const wanted = (await provider.ask('count', null)) + RUNNING_KEYS
  await entrant.begin(keys)
  const deadline = performance.now() + ARRIVAL_LIMIT_MS
  while ((await provider.ask('count', null)) < wanted) {
    if (performance.now() > deadline) throw new Error(`${entrant.label} did not reach the provider.`)
    await delay(POLL_MS)
  }
  const sample = await work(keys)
  const statuses = await entrant.awaitBegun()
  if (statuses.some((status) => status !== CREATED)) {
    throw new Error(`${entrant.label} answered the first requests with ${statuses.join(', ')}.`)
  }
  return sample
}
