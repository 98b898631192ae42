import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { CaseResult } from '../../packages/crash-kit/src/case/run-case.js'
import { Explorer } from '../../packages/crash-kit/src/explore/explorer.js'
import { crash } from '../../packages/crash-kit/src/faults/crash.js'
import { Coverage } from '../../packages/crash-kit/src/finding/coverage.js'
import type { Change } from '../../packages/crash-kit/src/history.js'
import { amountOf } from '../support/amounts.js'
import { oddRide } from './fixtures/odd-rides.mjs'
import { oddChild, openKit, RIDE_CHILD, type OpenedKit } from './open-kit.js'

/** Explorers of the same cases: one that crashes engines in this process, one that kills processes. */
function explorersOf({ environment, discovery, childrenOf }: OpenedKit, module: URL) {
  const inProcess = new Explorer(environment, discovery, [crash], new Coverage())
  const children = childrenOf(module)
  return {
    inProcess,
    started: vi.spyOn(children, 'run'),
    ofProcesses: new Explorer(environment, discovery, [crash], new Coverage(), children),
  }
}

/** Everything that a case has shown, without ids and times. */
function seen({ leftBehind, fired, recovery, timeline, seen: violations, history }: CaseResult) {
  return {
    leftBehind,
    fired,
    violations,
    recovery: recovery.map(({ attempt, position }) => `${attempt} ${position.text}`),
    timeline: timeline.map(({ who, what }) => `${who}: ${what.replaceAll(/\d+ ms/g, 'N ms')}`),
    commits: history.commits.map(({ actor, changes }) => ({ actor, changes: changes.map(changeSeen) })),
    calls: history.calls.map(({ actor, execution, phase, kind }) => ({ actor, execution, phase, kind })),
    outcomes: history.outcomes.map(({ actor, execution, outcome, disturbed }) => ({
      actor,
      execution,
      disturbed,
      type: outcome.type,
    })),
    requests: history.requests.map(({ idempotencyKey, tick: _tick, ...request }) => ({
      ...request,
      isKeyed: idempotencyKey !== null,
    })),
    deliveries: history.deliveries.map(({ name }) => name),
    leftovers: history.leftovers,
    completerRounds: history.completerRounds,
  }
}

function changeSeen({ table, op, after }: Change) {
  const { recovery_point: point, status, fence, attempts } = after ?? {}
  return table === 'idempotency_keys' ? { table, op, point, status, fence, attempts } : { table, op }
}

const ride = await openKit()
const { inProcess, ofProcesses, started } = explorersOf(ride, RIDE_CHILD)

beforeEach(() => void started.mockClear())

test('a process without a fault shows the same as an engine in this process', async () => {
  const none = { plan: [], title: 'no fault at all' }
  const here = await inProcess.run(none)
  const there = await ofProcesses.run(none)
  expect(seen(there)).toEqual(seen(here))
  expect(there.history.outcomes[0]?.outcome).toMatchObject({
    type: 'completed',
    response: { status: 201, body: expect.any(Buffer) as Buffer },
    expiresAt: expect.any(Date) as Date,
  })
})

describe('a process that SIGKILL ends leaves the same remains as an engine that dies in this process, and is recovered the same way', () => {
  const all = inProcess.firstCases().map((planned) => [planned.title, planned] as const)
  const cases = all.filter((_, at) => at % amountOf('oneKillIn') === 0)
  test.each(cases)('%s', async (_title, planned) => {
    const here = await inProcess.run(planned)
    const there = await ofProcesses.run(planned)
    expect(here.fired).toEqual([true])
    expect(seen(there)).toEqual(seen(here))
    expect(started).toHaveBeenCalledOnce()
  })
})

test('so does a second process, which recovers what the first one left', { timeout: 180_000 }, async () => {
  // Late in the ride, so that there is little to recover.
  const first = inProcess.named([{ attempt: 0, fault: 'crash', at: 'charge_created/commit#1:after' }])
  const here = inProcess.secondCases(first, await inProcess.run(first))
  const there = ofProcesses.secondCases(first, await ofProcesses.run(first))
  expect(there).toEqual(here)
  expect(here.length).toBeGreaterThan(8)
  for (const planned of here.filter((_, at) => at % amountOf('oneKillIn') === 0)) {
    started.mockClear()
    const result = await ofProcesses.run(planned)
    expect(result.fired).toEqual([true, true])
    expect(started).toHaveBeenCalledTimes(2)
    expect(seen(result)).toEqual(seen(await inProcess.run(planned)))
  }
})

test('a request without a key is attributed to the phase that the process was in', async () => {
  const unkeyed = await openKit((provider) => oddRide('unkeyed', provider))
  const explorers = explorersOf(unkeyed, oddChild('unkeyed'))
  const planned = explorers.inProcess.named([
    { attempt: 0, fault: 'crash', at: 'charge_created/call#1:after' },
  ])
  const here = await explorers.inProcess.run(planned)
  const there = await explorers.ofProcesses.run(planned)
  expect(there.history.requests).toEqual([
    expect.objectContaining({ actor: 'client', phase: 'charge_created', idempotencyKey: null }),
  ])
  expect(seen(there)).toEqual(seen(here))
})
