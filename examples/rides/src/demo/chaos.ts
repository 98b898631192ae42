import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, Client } from './client.js'
import type { Stage } from './scenarios.js'
import type { Service } from './service.js'
import { Story } from './story.js'
import { judge, type Verdict } from './verdict.js'
import type { World } from './world.js'

const CLIENTS = 8
const PROCESSES = 2
/** How long a process of the API takes to start, on a machine with nothing else to do. */
const USUAL_START_MS = 1_000
/** The share of rides that are requested only once. Most of these are answered all the same; some meet a kill. */
const LEAVING_SHARE = 0.4
/** A key that has crashed several processes backs off for longer each time: up to half a minute, for what happens here. */
const COMPLETE_TIMEOUT_MS = 120_000

/** Sends many requests to two processes, while two killers end these at random moments. */
export async function runChaos(stage: Stage, requests: number, seed: number): Promise<Verdict[]> {
  const { world, story } = stage
  story.chapter(`${requests} rides, ${PROCESSES} processes, and a hand that kills them (seed ${seed})`)
  const hands = [new Hand(world, stage.api, seed)]
  while (hands.length < PROCESSES) hands.push(new Hand(world, await world.startApi(), seed + hands.length))
  const killing = hands.map((hand) => hand.killUntilTold())
  const kills = () => hands.reduce((total, hand) => total + hand.kills, 0)

  const bar = progress(story, requests)
  const leaves = whoLeaves(requests, seed)
  const verdicts: Verdict[] = []
  const left: Client[] = []
  let begun = 0
  const sendRides = async (nth: number) => {
    while (begun < requests) {
      const isLeaving = leaves[begun++] === true
      const client = new Client(new Story(true), nth % 2 === 0 ? 'rider-1' : 'rider-2')
      let turn = nth
      const url = () => hands[turn++ % hands.length]?.api.url ?? ''
      const answer = isLeaving ? await sendOnce(world, client, url) : await client.retry(url)
      if (answer?.status === 201) verdicts.push(await judge(world, describe(client), client, answer.status))
      else left.push(client)
      bar(verdicts.length + left.length, kills())
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, nth) => sendRides(nth)))
  for (const hand of hands) hand.rest()
  await Promise.all(killing)
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

/** Chooses the rides whose client never retries. */
function whoLeaves(requests: number, seed: number): boolean[] {
  // Other numbers than those that the first killer draws.
  const random = mulberry(seed + PROCESSES)
  return Array.from({ length: requests }, () => random() < LEAVING_SHARE)
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

/** Kills one process again and again, after pauses that its seed decides, and starts another in its place. */
class Hand {
  api: Service
  kills = 0
  readonly #world: World
  readonly #random: () => number
  readonly #told = new AbortController()
  /** How long a process takes to start here: one that is killed sooner never does anything. */
  #startMs = USUAL_START_MS

  constructor(world: World, api: Service, seed: number) {
    this.#world = world
    this.api = api
    this.#random = mulberry(seed)
  }

  async killUntilTold(): Promise<void> {
    const { signal } = this.#told
    while (!signal.aborted) {
      // From "still starting a ride" to "has finished some", on whatever machine this is.
      const pauseMs = (0.15 + this.#random() * 0.75) * this.#startMs
      await sleep(pauseMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      await this.api.end('SIGKILL')
      this.kills++
      const begun = performance.now()
      this.api = await this.#world.startApi()
      this.#startMs = Math.max(USUAL_START_MS, performance.now() - begun)
    }
  }

  rest(): void {
    this.#told.abort()
  }
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

/** A small random generator with a seed, which Math.random does not take. */
function mulberry(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
