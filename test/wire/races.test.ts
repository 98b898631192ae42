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
import { Race } from './race.js'
import { RandomNumbers } from './random-numbers.js'
import { several } from './sweep.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { WireRequest } from './wire-request.js'
import { oneWholeRide, prepareRides, RIDE_SHAPE, RIDE_TABLES, WireRides } from './wire-ride.js'
import { SETTINGS, WireTrial } from './wire-trial.js'

const RACES = amountOf('wireRaces')
const AT_ONCE = 4

/** Several times what a race takes on a busy machine. */
vi.setConfig({ testTimeout: 90_000 + RACES * 4_000 })

const trial = await WireTrial.open(async (place) => {
  await prepareRides(place)
  await prepareFacts(place)
})
afterAll(() => trial.close())

test('a ride ends whole in whatever order the messages of five engines reach the server', async () => {
  const { pipeline, inputOf } = WireRides.shipped(trial.provider)
  const mark = await trial.database.mark()
  const raced = await several(seeds(), AT_ONCE, async (seed) => {
    const request = new WireRequest(trial, pipeline, inputOf)
    const race = new Race(new RandomNumbers(seed))
    return { seed, request, race, left: await race.run(trial, request, SETTINGS) }
  })
  const requests = raced.map(({ request }) => request)
  const rounds = await conclude(trial, requests, [pipeline])
  const broken = await judgeRequests(
    trial,
    mark,
    requests.map((request) => ({ request, shape: RIDE_SHAPE, more: oneWholeRide })),
    rounds,
  )
  await expectNothing(raced, broken, RIDE_TABLES)
})

test('any pipeline ends as the reference model says in whatever order those messages reach the server', async () => {
  const planned = planPipelines(SEED, RACES, trial.provider)
  const inputs = inputsOf(SEED, RACES)
  const mark = await trial.database.mark()
  const raced = await several(seeds(), AT_ONCE, async (seed) => {
    const at = seed - SEED
    const one = planned[at]
    if (one === undefined) throw new Error('each race has a pipeline')
    const each = plannedRequest(trial, one, inputs[at] ?? null)
    const race = new Race(new RandomNumbers(seed))
    return { seed, ...each, race, left: await race.run(trial, each.request, SETTINGS) }
  })
  const rounds = await conclude(
    trial,
    raced.map(({ request }) => request),
    planned.map(({ pipeline }) => pipeline),
  )
  await expectNothing(raced, await judgeRequests(trial, mark, raced.map(judged), rounds), FACT_TABLES)
})

function seeds(): number[] {
  return Array.from({ length: RACES }, (_, at) => SEED + at)
}

async function expectNothing(
  raced: readonly {
    readonly seed: number
    readonly request: { readonly scope: string }
    readonly race: Race
    readonly left: readonly { readonly rule: string; readonly detail: string }[]
  }[],
  broken: Awaited<ReturnType<typeof judgeRequests>>,
  tables: readonly string[],
): Promise<void> {
  const seedOf = new Map(raced.map(({ seed, request }) => [request.scope, seed]))
  const all = [
    ...broken.map(({ scope, rule, detail }) => `seed ${seedOf.get(scope)}, ${rule}: ${detail}`),
    ...raced.flatMap(({ seed, left }) => left.map(({ rule, detail }) => `seed ${seed}, ${rule}: ${detail}`)),
    ...[...(await unrecordedRows(trial.database, tables)), ...(await trial.leftovers())].map(
      ({ rule, detail }) => `${rule}: ${detail}`,
    ),
  ]
  const sum = (of: (race: Race) => number): number => raced.reduce((total, { race }) => total + of(race), 0)
  console.log(
    `${raced.length} races: ${sum(({ turns }) => turns)} turns, ${sum(({ cut }) => cut)} cuts, ` +
      `${sum(({ expired }) => expired)} leases ended early`,
  )
  expect(all).toEqual([])
  await trial.clear()
}
