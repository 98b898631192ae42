import { randomUUID } from 'node:crypto'
import { aesGcm, respond, subscribe } from '@pawl/core'
import { expect, onTestFinished, test } from 'vitest'
import { sendOnce } from '../../packages/crash-kit/src/actors/send-once.js'
import { Trial } from '../../packages/crash-kit/src/actors/trial.js'
import { type CaseResult, runCase } from '../../packages/crash-kit/src/case/run-case.js'
import { concludeTrial } from '../../packages/crash-kit/src/case/conclude-trial.js'
import { FAULTS } from '../../packages/crash-kit/src/faults/faults.js'
import type { Fault } from '../../packages/crash-kit/src/faults/fault.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { parseReplay } from '../../packages/crash-kit/src/plan/replay-line.js'
import { allGuards } from '../support/guards.js'
import { MemoryCache } from '../support/memory-cache.js'
import { pipeline, type RideInput } from '../support/rides.js'
import { openKit, type OpenedKit } from './open-kit.js'
import { rideAt } from './ride-kit.js'

const ALL: readonly Fault[] = Object.values(FAULTS).flat()
const faultOf = (id: string): Fault => ALL.find((fault) => fault.id === id) as Fault

const request = { scope: 'rider-1', input: { amount: 1_200 }, bindTo: 'session-1' }
const cache = new MemoryCache()
const guarded = await openKit(rideAt, { request, engine: { ...allGuards(), cache } })

/** Runs the case of a replay line, in which everything has to hold. */
async function survived({ environment, discovery }: OpenedKit, line: string): Promise<CaseResult> {
  const replay = parseReplay(line)
  if (replay.kind !== 'plan') throw new TypeError(`${line} is no plan`)
  const result = await runCase(environment, replay.plan, faultOf)
  expect(result.fired).toEqual(replay.plan.map(() => true))
  expect([...result.seen, ...judge(result.history, environment.shape, discovery.clean)]).toEqual([])
  return result
}

const outcomesOf = ({ history }: CaseResult): string[] =>
  history.outcomes.map(({ actor, outcome }) => `${actor}: ${outcome.type}`)

test('what an engine seals is in no row, and the kit reads it all the same', async () => {
  const { environment } = guarded
  const { database, scope } = { database: environment.database, scope: request.scope }
  const trial = await Trial.open(environment)
  await sendOnce(trial, 'client')
  const { rows } = await database.admin.query<{ all: string }>(
    `SELECT row_to_json(k)::text AS all FROM ${database.pawlSchema}.idempotency_keys AS k WHERE key = $1`,
    [trial.key],
  )
  expect(rows).toHaveLength(1)
  expect(rows[0]?.all).toContain('pawl:sealed:key-')
  expect(rows[0]?.all).not.toContain('rideId')
  expect(await database.keyRow(scope, trial.key)).toMatchObject({
    // It was wiped when the key finished.
    input: null,
    state: { rideId: expect.any(String) as string },
    response_headers: { 'content-type': 'application/json; charset=utf-8' },
  })
  const { history } = await concludeTrial(trial)
  expect(history.exposed).toEqual([])
})

test('clients are answered from the cache, and no copy outlives the time that passes, or commits that are lost', async () => {
  const { environment } = guarded
  const trial = await Trial.open(environment)
  const sources: string[] = []
  onTestFinished(subscribe('pawl:replayed', ({ from }) => void sources.push(from)))
  await sendOnce(trial, 'client')
  await sendOnce(trial, 'late client')
  expect(sources).toEqual(['cache'])
  await trial.passTime(1, 'a moment passes')
  await sendOnce(trial, 'late client')
  expect(sources).toEqual(['cache', 'primary'])
  await trial.loseCommits('all')
  const lost = await sendOnce(trial, 'client again')
  expect(lost).toMatchObject({ type: 'completed' })
  expect(sources).toEqual(['cache', 'primary'])
  await concludeTrial(trial)
})

test('a key is replayed to whoever it is bound to, and to nobody else', async () => {
  const result = await survived(guarded, 'crash@charge_created/call#1:after')
  expect(outcomesOf(result)).toEqual([
    'retry: completed',
    'late client: replayed',
    'mismatch: mismatch',
    'other binding: mismatch',
  ])
})

test('expiry: a client that comes back is refused, and the provider gets nothing more', async () => {
  const result = await survived(guarded, 'expiry@finished/commit#1:after')
  expect(outcomesOf(result)).toEqual(['client: completed', 'late client: expired'])
  expect(result.history.requests.filter(({ executed }) => executed)).toHaveLength(1)
  // Nothing is to be deleted earlier.
  expect(outcomesOf(await survived(guarded, 'expiry@ride_created/commit#1:after'))).not.toContain(
    'late client: expired',
  )
})

const local = () => pipeline<RideInput>({ name: 'local', version: 1 }).finish(() => respond(204))

test("expiry: with afterExpiry: 'run', or without an effect on record, the request is a new one", async () => {
  const { cache: _, ...others } = allGuards()
  const again = await openKit(rideAt, { engine: { ...others, afterExpiry: 'run' } })
  const result = await survived(again, 'expiry@finished/commit#1:after')
  expect(outcomesOf(result)).toEqual(['client: completed', 'late client: completed'])
  expect(result.history.requests.filter(({ executed }) => executed)).toHaveLength(2)
  const kit = await openKit(local)
  const without = await survived(kit, 'expiry@finished/commit#1:after')
  expect(outcomesOf(without)).toEqual(['client: completed', 'late client: completed'])
})

test('erasure: a request that is under way keeps everything, and completes', async () => {
  const { cache: _, ...others } = allGuards()
  const kit = await openKit(rideAt, { engine: others })
  const result = await survived(kit, 'erasure@charge_created/commit#1:after')
  expect(outcomesOf(result)[0]).toBe('client: completed')
  expect(result.timeline).toContainEqual(
    expect.objectContaining({ who: 'eraser', what: 'erases what it can of the scope' }),
  )
})

test('a scope has its limit in each case anew, and a client that reached it comes back', async () => {
  const limits = { newKeys: { max: 1, perMs: 3_600_000 }, unfinished: 1 }
  const { environment } = await openKit(rideAt, { engine: { limits } })
  for (let round = 0; round < 2; round++) {
    const trial = await Trial.open(environment)
    expect(await sendOnce(trial, 'other client', { key: randomUUID() })).toMatchObject({ type: 'completed' })
    expect(await sendOnce(trial, 'client')).toMatchObject({ type: 'limited', limit: 'new_keys' })
    await trial.passUntilAllowed()
    expect(await sendOnce(trial, 'client')).toMatchObject({ type: 'completed' })
    await concludeTrial(trial)
  }
})

test('a value that is not sealed is a finding', async () => {
  const protect = aesGcm({ keys: { k: Buffer.alloc(32, 9) } })
  const { environment } = await openKit(rideAt, { engine: { protect } })
  const trial = await Trial.open(environment)
  const { pawlSchema, admin } = environment.database
  await sendOnce(trial, 'client')
  await admin.query(`UPDATE ${pawlSchema}.idempotency_keys SET state = '{"rideId":"in the clear"}'`)
  const { history } = await concludeTrial(trial)
  expect(judge(history, environment.shape, null)).toContainEqual(
    expect.objectContaining({
      rule: 'I17',
      detail: expect.stringContaining('is stored in the clear') as string,
    }),
  )
})
