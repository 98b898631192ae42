import { Client } from './client.js'
import type { Service } from './service.js'
import type { Story } from './story.js'
import { judge, tracesOf, type Verdict } from './verdict.js'
import type { KeyRow, World } from './world.js'

/** What the scenarios work with: one world, one API that is up between them. */
export interface Stage {
  readonly world: World
  readonly story: Story
  /** The API that answers now. */
  api: Service
}

/** The chapters of the demo, in order. Each leaves an API that is up. */
export const scenarios: readonly ((stage: Stage) => Promise<Verdict>)[] = [
  plainRide,
  crashAfterTheCharge,
  (stage) => crashAt(stage, 'after the key was reserved', 'pawl:reserved'),
  (stage) => crashAt(stage, 'after ride_created', 'pawl:phase_committed ride_created'),
  (stage) => crashAt(stage, 'after charge_created', 'pawl:phase_committed charge_created'),
  (stage) => crashAt(stage, 'after finished, before the answer', 'pawl:finished'),
  crashDuringRecovery,
  frozenAndOvertaken,
  providerOutage,
  declinedCard,
  clientThatNeverRetries,
]

async function plainRide({ world, story, api }: Stage): Promise<Verdict> {
  story.chapter('A ride, plainly')
  const client = new Client(story)
  await client.send(api.url)
  tellTrail(story, await world.key(client.key))
  story.tell('client', 'sends the same request again')
  const again = await client.send(api.url)
  return judge(world, 'nothing; sent twice', client, again?.status ?? 0)
}

async function crashAfterTheCharge(stage: Stage): Promise<Verdict> {
  const { world, story, api } = stage
  story.chapter('Killed after the charge, before it was recorded')
  await world.provoke('slow')
  const client = new Client(story)
  const charged = (await world.ledger()).length + 1
  const lost = client.send(api.url)
  await world.until('the charge', async () => (await world.ledger()).length === charged)
  story.tell('stripe', 'has charged the rider; its answer is still on the way')
  story.tell('hand', `kill -9 ${api.pid}`)
  await api.end('SIGKILL')
  await lost
  tellKey(story, await world.key(client.key))
  return recover(stage, client, 'kill -9 after the charge')
}

async function crashAt(stage: Stage, when: string, point: string): Promise<Verdict> {
  const { world, story } = stage
  story.chapter(`Killed ${when}`)
  await replaceApi(stage, point)
  const client = new Client(story)
  const lost = client.send(stage.api.url)
  await stage.api.exited
  story.tell('hand', `kill -9 ${stage.api.pid}, ${when}`)
  await lost
  tellKey(story, await world.key(client.key))
  return recover(stage, client, `kill -9 ${when}`)
}

async function crashDuringRecovery(stage: Stage): Promise<Verdict> {
  const { world, story } = stage
  story.chapter('Killed after the charge, and again during the recovery')
  await world.provoke('slow')
  const client = new Client(story)
  const charged = (await world.ledger()).length + 1
  const lost = client.send(stage.api.url)
  await world.until('the charge', async () => (await world.ledger()).length === charged)
  story.tell('hand', `kill -9 ${stage.api.pid}`)
  await stage.api.end('SIGKILL')
  await lost
  await replaceApi(stage, 'pawl:phase_committed charge_created')
  const finished = client.retry(() => stage.api.url)
  await stage.api.exited
  story.tell('hand', `kill -9 ${stage.api.pid}, right after the recovery had recorded the charge`)
  stage.api = await world.startApi()
  const answer = await finished
  tellTrail(story, await world.key(client.key))
  return judge(world, 'kill -9, and again during recovery', client, answer.status)
}

async function frozenAndOvertaken(stage: Stage): Promise<Verdict> {
  const { world, story } = stage
  story.chapter('Frozen, overtaken by a second process, and woken')
  await replaceApi(stage, 'pawl:phase_committed ride_created', 'SIGSTOP')
  const frozen = stage.api
  const client = new Client(story)
  const first = client.send(frozen.url)
  await world.until('the ride', async () => (await world.key(client.key))?.recovery_point === 'ride_created')
  story.tell('hand', `kill -STOP ${frozen.pid}, after ride_created`)
  tellKey(story, await world.key(client.key))
  stage.api = await world.startApi()
  const second = stage.api
  story.tell('api', `a second process is up, pid ${second.pid}`)
  const answer = await client.retry(() => second.url)
  story.tell('hand', `kill -CONT ${frozen.pid}`)
  frozen.signal('SIGCONT')
  const woken = await first
  story.tell('api', `the woken process answers ${woken?.status ?? 'nothing'}, and has written nothing`)
  tellTrail(story, await world.key(client.key))
  await frozen.end('SIGTERM')
  return judge(world, 'frozen, overtaken, woken', client, answer.status)
}

async function providerOutage({ world, story, api }: Stage): Promise<Verdict> {
  story.chapter('The payments provider fails, then works again')
  await world.provoke('error_before', 'error_before')
  const client = new Client(story)
  const answer = await client.retry(() => api.url)
  tellTrail(story, await world.key(client.key))
  return judge(world, 'two failures of the provider', client, answer.status)
}

async function declinedCard({ world, story, api }: Stage): Promise<Verdict> {
  story.chapter('A card that is declined')
  const client = new Client(story, 'rider-declined')
  await client.send(api.url)
  const again = await client.send(api.url)
  return judge(world, 'card declined; sent twice', client, again?.status ?? 0, { status: 402, charges: 0 })
}

/** The place of the background completer, which would finish it. */
async function clientThatNeverRetries(stage: Stage): Promise<Verdict> {
  const { world, story } = stage
  story.chapter('Killed after ride_created, and the client never comes back')
  await replaceApi(stage, 'pawl:phase_committed ride_created')
  const client = new Client(story)
  const lost = client.send(stage.api.url)
  await stage.api.exited
  await lost
  stage.api = await world.startApi()
  const key = await world.key(client.key)
  tellKey(story, key)
  story.tell(
    'demo',
    'nothing is lost: it would go on from there. Without a retry, that takes the completer, to come',
  )
  const { rows, charges } = await tracesOf(world, client.key)
  const ok = key?.recovery_point === 'ride_created' && rows.length === 1 && charges.length === 0
  return {
    done: 'kill -9, and the client never retries',
    saw: client.seen.join(', '),
    charges: charges.length,
    rides: rows.length,
    ok,
    wrong: ok ? [] : [`the key is at ${key?.recovery_point ?? 'nothing'}`],
    note: 'unfinished, and kept',
  }
}

/** Starts the API again and lets the client retry. */
async function recover(stage: Stage, client: Client, done: string): Promise<Verdict> {
  const { world, story } = stage
  const before = await world.key(client.key)
  stage.api = await story.during('the API starts', world.startApi())
  const { api } = stage
  story.tell('api', `is up again, pid ${api.pid}`)
  const retried = client.retry(() => api.url)
  const answer = await story.during('the lease of the dead process runs out', retried)
  story.tell('demo', `went on from ${before?.recovery_point ?? 'nothing'}`)
  tellTrail(story, await world.key(client.key))
  return judge(world, done, client, answer.status)
}

/** Another API in place of the one that is up: one that will crash or freeze at a point. */
async function replaceApi(
  stage: Stage,
  point: string,
  crashSignal: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL',
): Promise<void> {
  stage.api.signal('SIGTERM')
  stage.api = await stage.world.startApi({ crashAt: point, crashSignal })
}

function tellKey(story: Story, row: KeyRow | null): void {
  if (row === null) return story.tell('database', 'there is no row for the key')
  const { status, recovery_point, fence, lease_left_ms: leaseMs } = row
  const lease = leaseMs === null ? 'no lease' : `leased for ${Math.max(0, Math.round(leaseMs))} ms more`
  return story.tell('database', `the key's row: ${status} at ${recovery_point}, fence ${fence}, ${lease}`)
}

function tellTrail(story: Story, row: KeyRow | null): void {
  const steps = (row?.trail ?? []).map(
    ({ p, f, t }) => `${p} after ${Math.round(t - (row?.created_ms ?? t))} ms (fence ${f})`,
  )
  story.tell('database', `the way it went: ${steps.join(' → ')}`)
}
