import { CREATED } from '../business.js'
import type { ContenderName } from '../contenders/registry.js'
import { countTraffic, type RequestTraffic } from '../measure/count-traffic.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { warmUp } from '../measure/warm-up.js'
import { linesOf, type Section } from '../report/section.js'
import type { Entrant } from '../run/entrant.js'
import { freshLoad, newKeys } from './keyed-load.js'
import type { Mode, Scenario, Stage } from './scenario.js'

const BASELINE = 'hand-written'

const CONTENDERS: Readonly<Record<Mode, readonly ContenderName[]>> = {
  // openworkflow takes more than a second for a request, and so does everything about it.
  quick: [
    'pawl',
    'pawl-each',
    'pawl-fewest',
    'pawl-fastify',
    'hand-written',
    'hand-written-fastify',
    'no-idempotency',
    'dbos',
    'restate',
    'absurd',
  ],
  full: [
    'pawl',
    'pawl-each',
    'pawl-fewest',
    'pawl-fastify',
    'hand-written',
    'hand-written-fastify',
    'original',
    'no-idempotency',
    'dbos',
    'openworkflow',
    'restate',
    'absurd',
  ],
}

interface Plan {
  readonly clients: number
  readonly contenders: readonly ContenderName[]
  readonly rounds: number
  /** A few times what a request takes while all clients wait for each other. */
  readonly leadInMs: number
  readonly windowMs: number
}

const FEW: readonly ContenderName[] = ['pawl', 'pawl-each', 'pawl-fewest', 'hand-written', 'no-idempotency']

const PLANS: Readonly<Record<Mode, readonly Plan[]>> = {
  quick: [
    { clients: 1, contenders: FEW, rounds: 3, leadInMs: 100, windowMs: 600 },
    { clients: 32, contenders: CONTENDERS.quick, rounds: 3, leadInMs: 200, windowMs: 600 },
    { clients: 256, contenders: FEW, rounds: 1, leadInMs: 500, windowMs: 700 },
  ],
  full: [
    { clients: 1, contenders: CONTENDERS.full, rounds: 5, leadInMs: 300, windowMs: 1_000 },
    { clients: 32, contenders: CONTENDERS.full, rounds: 7, leadInMs: 400, windowMs: 1_600 },
    { clients: 256, contenders: CONTENDERS.full, rounds: 3, leadInMs: 1_000, windowMs: 2_000 },
  ],
}

/** What warms everybody up. */
const WARM_UP_CLIENTS = 32

/** Requests with keys that nobody has seen, by one client, by more than the pool has connections, and by many more. */
export const fresh: Scenario = {
  title: 'fresh requests',
  async run(stage) {
    const { arena, mode, among, say } = stage
    const names = among(CONTENDERS[mode])
    say('fresh: counting statements and round trips')
    const traffic = await countTraffic(arena, names, {
      send: (entrant, requests) =>
        entrant.each({ keys: newKeys(requests), clients: 1, expectedStatus: CREATED }),
    })
    const entrants = await Promise.all(names.map((name) => arena.enter(name)))
    say('fresh: warming up')
    await warmUp(stage, entrants, freshLoad(WARM_UP_CLIENTS, 0, 0))
    const sections: Section[] = []
    for (const plan of PLANS[mode]) {
      const taking = among(plan.contenders)
      const those = entrants.filter(({ label }) => taking.some((name) => name === label))
      sections.push(await runFresh(stage, those, plan, traffic))
    }
    await Promise.all(entrants.map((entrant) => entrant.close()))
    return sections
  },
}

async function runFresh(
  { arena, say }: Stage,
  entrants: readonly Entrant[],
  { clients, rounds, leadInMs, windowMs }: Plan,
  traffic: ReadonlyMap<string, RequestTraffic | null>,
): Promise<Section> {
  const name = `fresh C=${clients}`
  say(name)
  const samples = await alternate(entrants, rounds, (entrant) =>
    takeSample(arena, entrant, freshLoad(clients, leadInMs, windowMs)),
  )
  return {
    name,
    title: `Fresh requests, ${clients === 1 ? 'one client' : `${clients} clients`}`,
    unit: 'requests/s',
    compared: 'requestsPerSecond',
    baseline: BASELINE,
    lines: linesOf(samples, 'requestsPerSecond', BASELINE, traffic),
    notes: [],
  }
}
