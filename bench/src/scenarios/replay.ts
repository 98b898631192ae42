import { CREATED } from '../business.js'
import type { ContenderName } from '../contenders/registry.js'
import { countTraffic } from '../measure/count-traffic.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { warmUp } from '../measure/warm-up.js'
import { linesOf, type Section } from '../report/section.js'
import type { Entrant } from '../run/entrant.js'
import { newKeys } from './keyed-load.js'
import type { Mode, Scenario, Stage } from './scenario.js'

const LIBRARIES: Readonly<Record<Mode, readonly ContenderName[]>> = {
  quick: ['pawl', 'hand-written'],
  full: ['pawl', 'hand-written', 'original', 'dbos', 'openworkflow'],
}

const OVER_HTTP = ['pawl-fastify', 'select-route'] as const satisfies readonly ContenderName[]

const CLIENTS = 32

const PLANS: Readonly<Record<Mode, { rounds: number; leadInMs: number; windowMs: number; keys: number }>> = {
  quick: { rounds: 3, leadInMs: 100, windowMs: 400, keys: 100 },
  full: { rounds: 7, leadInMs: 300, windowMs: 1_000, keys: 500 },
}

/** Requests whose key has finished: the stored answer, and nothing else. */
export const replay: Scenario = {
  title: 'replay of finished keys',
  async run(stage) {
    return [
      ...(await runReplay(stage, {
        name: 'replay',
        title: 'Replay of finished keys, 32 clients, called as a library',
        names: stage.among(LIBRARIES[stage.mode]),
        baseline: 'hand-written',
      })),
      ...(await runReplay(stage, {
        name: 'replay over HTTP',
        title: 'Replay of finished keys, 32 clients, over HTTP',
        names: stage.among(OVER_HTTP),
        baseline: 'select-route',
      })),
    ]
  },
}

interface Comparison {
  readonly name: string
  readonly title: string
  readonly names: readonly ContenderName[]
  readonly baseline: ContenderName
}

export async function runReplay(
  stage: Stage,
  { name, title, names, baseline }: Comparison,
): Promise<Section[]> {
  const { arena, mode, say } = stage
  if (names.length === 0) return []
  say(name)
  const { rounds, leadInMs, windowMs, keys: count } = PLANS[mode]
  const [countedKey = ''] = newKeys(1)
  const traffic = await countTraffic(arena, names, {
    before: (entrant) => finishKeys(entrant, [countedKey]),
    send: (entrant, requests) =>
      entrant.each({
        keys: Array.from({ length: requests }, () => countedKey),
        clients: 1,
        expectedStatus: CREATED,
      }),
  })
  const entrants = await Promise.all(names.map((each) => arena.enter(each)))
  const keys = newKeys(count)
  for (const entrant of entrants) await finishKeys(entrant, keys)
  const plan = {
    clients: CLIENTS,
    leadInMs,
    windowMs,
    measure: 'window',
    keys,
    expectedStatus: CREATED,
  } as const
  await warmUp(stage, entrants, plan)
  const samples = await alternate(entrants, rounds, (entrant) => takeSample(arena, entrant, plan))
  await Promise.all(entrants.map((entrant) => entrant.close()))
  return [
    {
      name,
      title,
      unit: 'requests/s',
      compared: 'requestsPerSecond',
      baseline,
      lines: linesOf(samples, 'requestsPerSecond', baseline, traffic),
      notes: [],
    },
  ]
}

async function finishKeys(entrant: Entrant, keys: readonly string[]): Promise<void> {
  if (entrant.label === 'select-route') await entrant.control('insert', keys)
  else await entrant.each({ keys, clients: CLIENTS, expectedStatus: CREATED })
}
