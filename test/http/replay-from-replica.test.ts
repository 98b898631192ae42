import { randomUUID } from 'node:crypto'
import { createProbedEngine } from '@pawl/core/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ReplicatedServer } from '../support/replicated-server.js'
import { rideApp, surroundings } from '../support/ride-app.js'
import type { Database } from '../support/rides.js'

let servers: ReplicatedServer
beforeAll(async () => {
  servers = await ReplicatedServer.start(1)
})
afterAll(() => servers.stop())

test('a route answers a retry from the replica with the same status, headers and bytes as from the primary', async () => {
  const beside = await surroundings(servers.primary.url)
  const key = randomUUID()
  const ask = ({ app }: Awaited<ReturnType<typeof rideApp>>) =>
    app.inject({
      method: 'POST',
      url: '/rides',
      headers: { authorization: 'Bearer rider-7', 'idempotency-key': key },
      payload: { amount: 1_200 },
    })
  const first = await rideApp({ beside })
  const answer = await ask(first)
  expect(answer.statusCode).toBe(201)
  const fromPrimary = await ask(first)
  await servers.caughtUp()

  const steps: string[] = []
  const replayFrom = beside.database.pool({ connectionString: servers.replica.url })
  const second = await rideApp({
    beside,
    engineOf: (options) =>
      createProbedEngine<Database>(
        { ...options, replayFrom, replayTimeoutMs: 30_000 },
        ({ phase, step }) => void steps.push(`${phase}/${step}`),
      ),
  })
  const fromReplica = await ask(second)
  expect(new Set(steps)).toEqual(
    new Set(['reserve/read_written_position', 'replica/read_replay_position', 'replica/find_key']),
  )
  expect(fromReplica.rawPayload.equals(answer.rawPayload)).toBe(true)
  expect(fromReplica.statusCode).toBe(answer.statusCode)
  const headersOf = ({ headers }: typeof answer) => ({ ...headers, date: null })
  expect(headersOf(fromReplica)).toEqual(headersOf(fromPrimary))
  expect(fromReplica.headers).toMatchObject({ 'idempotency-replayed': 'true' })
})
