import { type Answer, Client } from './client.js'
import { pawlShow } from './pawl-show.js'
import type { Service } from './service.js'
import { sprayedKeys } from './spraying.js'
import type { Story } from './story.js'
import { judge, type Verdict } from './verdict.js'
import type { KeyRow, World } from './world.js'

/** What the scenarios share: one world, and one API that is up between them. */
export interface Stage {
  readonly world: World
  readonly story: Story
  /** The API that answers now. */
  api: Service
}

/**
 * The lease of the ride that is left alone. It is longer than the others, because the recovery is measured against it,
 * also on busy machines.
 */
const UNATTENDED_LEASE_MS = 4_000

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
  sprayedKeys,
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
  story.tell('hand', `is ready to kill -9 ${stage.api.pid} ${when}`)
  const client = new Client(story)
  const lost = client.send(stage.api.url)
  await stage.api.exited
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
  const again = await world.key(client.key)
  stage.api = await world.startApi()
  const answer = await finished
  story.tell('demo', whoWentOn(again, answer))
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
  const stopped = await world.key(client.key)
  tellKey(story, stopped)
  stage.api = await world.startApi()
  const second = stage.api
  story.tell('api', `a second process is up, pid ${second.pid}`)
  const answer = await client.retry(() => second.url)
  story.tell('demo', whoWentOn(stopped, answer))
  const before = await world.key(client.key)
  story.tell('hand', `kill -CONT ${frozen.pid}`)
  frozen.signal('SIGCONT')
  const woken = await first
  const after = await world.key(client.key)
  const wrote =
    JSON.stringify([before?.fence, before?.trail]) !== JSON.stringify([after?.fence, after?.trail])
  story.tell(
    'api',
    `the woken process answers ${woken?.status ?? 'nothing'}, and has written ${wrote ? 'SOMETHING' : 'nothing'}`,
  )
  tellTrail(story, after)
  await frozen.end('SIGTERM')
  const verdict = await judge(world, 'frozen, overtaken, woken', client, answer.status)
  return wrote ? { ...verdict, ok: false, wrong: [...verdict.wrong, 'the woken process wrote'] } : verdict
}

async function providerOutage({ world, story, api }: Stage): Promise<Verdict> {
  story.chapter('The payments provider fails, then works again')
  await world.provoke('error_before', 'error_before')
  const client = new Client(story)
  const answer = await client.retry(() => api.url)
  const row = await world.key(client.key)
  story.tell('demo', `was tried ${row?.fence} times, by the client or the completer, whoever came first`)
  tellTrail(story, row)
  return judge(world, 'two failures of the provider', client, answer.status)
}

async function declinedCard({ world, story, api }: Stage): Promise<Verdict> {
  story.chapter('A card that is declined')
  const client = new Client(story, 'rider-declined')
  await client.send(api.url)
  const again = await client.send(api.url)
  return judge(world, 'card declined; sent twice', client, again?.status ?? 0, { status: 402, charges: 0 })
}

/** Nobody retries this ride: the completer of a running process finds it once its lease has run out. */
async function clientThatNeverRetries({ world, story, api }: Stage): Promise<Verdict> {
  story.chapter('Killed after ride_created, and the client never comes back')
  const killed = await world.startApi({
    crashAt: 'pawl:phase_committed ride_created',
    leaseMs: UNATTENDED_LEASE_MS,
  })
  story.tell('api', `a second process is up, pid ${killed.pid}`)
  story.tell('hand', `is ready to kill -9 ${killed.pid} after ride_created`)
  const client = new Client(story)
  const lost = client.send(killed.url)
  await killed.exited
  await lost
  client.leave()
  tellKey(story, await world.key(client.key))
  const isFinished = async () => (await world.key(client.key))?.status === 'finished'
  await story.during('the lease of the dead process runs out', world.until('the completer', isFinished))
  const row = await world.key(client.key)
  const tookMs = sinceCrash(row)
  story.tell(
    'api',
    `the completer of pid ${api.pid} has finished it, ${Math.round(tookMs)} ms after the crash; two leases are ${2 * UNATTENDED_LEASE_MS} ms`,
  )
  tellTrail(story, row)
  if (row !== null) story.quote(...(await pawlShow(world.databaseUrl, row.scope, client.key)))
  const verdict = await judge(world, 'kill -9, and the client never retries', client, null)
  if (tookMs <= 2 * UNATTENDED_LEASE_MS) return verdict
  return {
    ...verdict,
    ok: false,
    wrong: [...verdict.wrong, `finished ${Math.round(tookMs)} ms after the crash`],
  }
}

/**
 * How long it took by the database's clock, which wrote both moments: from the last commit before the crash to the end,
 * so rather too long than too short. NaN where one of them is missing, which is within no limit.
 */
function sinceCrash(row: KeyRow | null): number {
  const at = (point: string) => row?.trail.find(({ p }) => p === point)?.t ?? Number.NaN
  return at('finished') - at('ride_created')
}

/** Starts the API again and lets the client retry. Its completer may be faster: then the retry finds a stored answer. */
async function recover(stage: Stage, client: Client, done: string): Promise<Verdict> {
  const { world, story } = stage
  const before = await world.key(client.key)
  stage.api = await story.during('the API starts', world.startApi())
  const { api } = stage
  story.tell('api', `is up again, pid ${api.pid}`)
  const retried = client.retry(() => api.url)
  const answer = await story.during('the lease of the dead process runs out', retried)
  story.tell('demo', whoWentOn(before, answer))
  tellTrail(story, await world.key(client.key))
  return judge(world, done, client, answer.status)
}

/** A replayed answer was stored before the client came back: only the completer can have done that. */
function whoWentOn(before: KeyRow | null, { replayed }: Answer): string {
  if (before?.status === 'finished') return 'there was nothing left to do: the stored answer is sent'
  const who = replayed ? 'the completer, before the client came again' : "the client's retry"
  return `went on from ${before?.recovery_point ?? 'nothing'}: ${who}`
}

/** Replaces the API that is up with one that will crash or freeze at a point. */
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
