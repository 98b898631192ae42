import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, Client } from './client.js'
import { Hand } from './hand.js'
import { mulberry } from './random.js'
import type { Stage } from './scenarios.js'
import { Story } from './story.js'
import { judge, type Verdict } from './verdict.js'
import type { ApiOptions, World } from './world.js'

const PROCESSES = 2
/** The share of rides that are requested only once. Most of these are answered all the same; some meet a kill. */
const LEAVING_SHARE = 0.4
/** A key that has crashed several processes backs off for longer each time: up to half a minute, for what happens here. */
const COMPLETE_TIMEOUT_MS = 120_000

export interface Chaos {
  readonly title: string
  /** How many rides; Infinity for as many as there is time for. */
  readonly rides: number
  readonly seed: number
  readonly clients: number
  /** How long a client rests after each ride, at most. */
  readonly restMs: number
  /** How patient the killers are: see `HandOptions`. */
  readonly patience: number
  /** The share of charges that take the provider seconds. */
  readonly slowShare: number
  readonly apiOptions: ApiOptions
  /** Called after every ride that a client saw the end of, or left. */
  readonly onRide: (rides: number, kills: number) => void
  /** Tells each kill. */
  readonly tellsKills: boolean
}

/** A number of rides, as fast as they go. */
export function countedChaos({ story }: Stage, rides: number, seed: number): Chaos {
  return {
    title: `${rides} rides, ${PROCESSES} processes, and a hand that kills them (seed ${seed})`,
    rides,
    seed,
    clients: 8,
    restMs: 0,
    patience: 1,
    slowShare: 0,
    apiOptions: {},
    onRide: progress(story, rides),
    tellsKills: false,
  }
}

/** Rides at a pace at which they can be watched. */
export function watchedChaos({ story }: Stage, rides: number, seed: number): Chaos {
  return {
    title: `Rides, ${PROCESSES} processes, and a hand that kills them (seed ${seed})`,
    rides,
    seed,
    clients: 6,
    restMs: 2_500,
    patience: 12,
    slowShare: 0.5,
    // Long enough that one sees a dead process's lease run out, and short enough that one sees the key move on.
    apiOptions: { leaseMs: 6_000 },
    onRide: (done, kills) => {
      if (done % 25 === 0) story.tell('demo', `${done} rides, ${kills} kills`)
    },
    tellsKills: true,
  }
}

/** Sends requests to two processes, while two killers end these at random moments. `judged` gets each verdict at once. */
export async function runChaos(
  stage: Stage,
  chaos: Chaos,
  judged: (verdict: Verdict) => void = () => {},
): Promise<Verdict[]> {
  const { world, story } = stage
  const { seed, apiOptions, patience } = chaos
  story.chapter(chaos.title)
  const onKill = chaos.tellsKills
    ? ({ pid }: { readonly pid: number }) => story.tell('hand', `kill -9 ${pid}`)
    : () => {}
  const handOf = (api: Stage['api'], nth: number) =>
    new Hand({ world, api, apiOptions, seed: seed + nth, patience, onKill })
  const hands = [handOf(stage.api, 0)]
  while (hands.length < PROCESSES) hands.push(handOf(await world.startApi(apiOptions), hands.length))
  const kills = () => hands.reduce((total, hand) => total + hand.kills, 0)

  // Other numbers than those that the killers draw.
  const random = mulberry(seed + PROCESSES)
  const verdicts: Verdict[] = []
  const left: Client[] = []
  let begun = 0
  const sendRides = async (nth: number) => {
    while (begun < chaos.rides) {
      begun++
      const isLeaving = random() < LEAVING_SHARE
      if (chaos.slowShare > 0 && random() < chaos.slowShare) await world.provoke('slow')
      const client = new Client(new Story(true), nth % 2 === 0 ? 'rider-1' : 'rider-2')
      let turn = nth
      const url = () => hands[turn++ % hands.length]?.api.url ?? ''
      const answer = isLeaving ? await sendOnce(world, client, url) : await client.retry(url)
      if (answer?.status === 201) {
        const verdict = await judge(world, describe(client), client, answer.status)
        verdicts.push(verdict)
        judged(verdict)
      } else left.push(client)
      chaos.onRide(verdicts.length + left.length, kills())
      if (chaos.restMs > 0) await sleep(random() * chaos.restMs)
    }
  }
  const riding = Promise.all(Array.from({ length: chaos.clients }, (_, nth) => sendRides(nth))).then(() => {
    for (const hand of hands) hand.rest()
  })
  // All at once: what fails in a hand ends the chaos, too.
  await Promise.all([riding, ...hands.map((hand) => hand.killUntilTold())])
  const [first] = hands
  if (first !== undefined) stage.api = first.api
  if (left.length > 0)
    story.tell('api', `the completers finish what is left; ${left.length} clients never came back`)
  const allFinished = async () => (await world.unfinished()) === 0
  await story.during('the completers work', world.until('the completers', allFinished, COMPLETE_TIMEOUT_MS))
  const lost: Verdict[] = []
  for (const client of left) lost.push(await judge(world, describe(client), client, null))
  return [
    ...summarise(
      verdicts,
      { done: `rides, ${kills()} times kill -9`, saw: '201 for each, in the end' },
      kills(),
    ),
    ...(left.length === 0
      ? []
      : summarise(lost, { done: 'more, never asked for again', saw: whatTheySaw(left) }, kills())),
  ]
}

/** Each value once. */
function whatTheySaw(clients: readonly Client[]): string {
  return [...new Set(clients.flatMap(({ seen }) => seen))].join(', ')
}

function describe({ key }: Client): string {
  return `kill -9 at any time (${key})`
}

/**
 * Sends the request until it has arrived, since nobody can finish one that never did. After that it never retries,
 * whatever it got.
 */
async function sendOnce(world: World, client: Client, url: () => string): Promise<Answer | null> {
  let answer: Answer | null = null
  await world.until('a process that takes the request', async () => {
    answer = await client.send(url())
    return (await world.key(client.key)) !== null
  })
  return answer
}

/** One row for all rides that held, and one for each that did not. */
function summarise(
  verdicts: readonly Verdict[],
  { done, saw }: { readonly done: string; readonly saw: string },
  kills: number,
): Verdict[] {
  const held = verdicts.filter(({ ok }) => ok)
  const sum = (what: (verdict: Verdict) => number) =>
    held.reduce((total, verdict) => total + what(verdict), 0)
  const all: Verdict = {
    done: `${held.length} ${done}`,
    saw,
    ...(kills === 0 ? { note: 'held, but nothing was killed: ask for more rides' } : {}),
    charges: sum(({ charges }) => charges),
    rides: sum(({ rides }) => rides),
    ok: true,
    wrong: [],
  }
  return [all, ...verdicts.filter(({ ok }) => !ok)]
}

/** A line per tenth. */
function progress(story: Story, of: number): (done: number, kills: number) => void {
  let told = 0
  return (done, kills) => {
    const tenth = Math.floor((done / of) * 10)
    if (tenth === told) return
    told = tenth
    story.tell('demo', `${'█'.repeat(tenth)}${'░'.repeat(10 - tenth)} ${done} of ${of} rides, ${kills} kills`)
  }
}
