import { respond } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { ask, completerOf, sendAsync } from '../support/async-app.js'
import { audit, keyRows } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

const plugin = { respondAsync: true }

describe('a request whose sender has lost the right to send it before it runs', () => {
  const barred = new Set<string>()
  const entered: string[] = []
  const guardedPipeline = pipeline<{ amount: number }>({
    name: 'guarded',
    version: 1,
    authorize: async ({ tx, scope, input }) => {
      entered.push(`${scope} ${input.amount}`)
      await tx.insertInto('audit').values({ what: 'asked' }).execute()
      return barred.has(scope) ? respond(403, { code: 'not_allowed' }) : undefined
    },
  })
    .local('written', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'written' }).execute()
    })
    .finish(() => respond(201))
  const app = () =>
    rideApp({
      plugin,
      pipelines: [guardedPipeline],
      routes: (server) =>
        void server.post<{ Body: { amount: number } }>('/guarded', { idempotency: true }, (request) =>
          request.pawl.run(guardedPipeline, request.body),
        ),
    })

  test('is answered by authorize, and none of its phases runs', async () => {
    const trial = await app()
    const accepted = await sendAsync(trial.app, { url: '/guarded' })
    barred.add('ann')
    await completerOf(trial.engine).runOnce()
    barred.clear()
    expect(entered).toEqual(['ann 20'])
    // What authorize wrote is committed with its answer.
    expect(await audit(trial.database)).toEqual(['asked'])
    const status = await ask(trial.app, accepted)
    expect([status.statusCode, status.json()]).toEqual([403, { code: 'not_allowed' }])
    expect(await keyRows(trial.database)).toMatchObject([{ status: 'finished', response_status: 403 }])
  })

  test('runs if authorize returns nothing, which is not called for a request that its client waits for', async () => {
    entered.length = 0
    const trial = await app()
    const accepted = await sendAsync(trial.app, { url: '/guarded' })
    await completerOf(trial.engine).runOnce()
    expect((await ask(trial.app, accepted)).statusCode).toBe(201)
    expect(entered).toEqual(['ann 20'])
    expect(await audit(trial.database)).toEqual(['written'])
    const { statusCode } = await trial.app.inject({
      method: 'POST',
      url: '/guarded',
      headers: { authorization: 'Bearer ann', 'idempotency-key': 'k2' },
      payload: { amount: 1 },
    })
    expect(statusCode).toBe(201)
    expect(entered).toEqual(['ann 20'])
  })

  test('does not run while authorize fails', async () => {
    const failing = pipeline<null>({
      name: 'failing',
      version: 1,
      authorize: () => {
        throw new Error('no idea who that is')
      },
    })
      .local('written', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'written' }).execute()
      })
      .finish(() => respond(201))
    const trial = await rideApp({
      plugin,
      pipelines: [failing],
      routes: (server) =>
        void server.post('/failing', { idempotency: true }, (request) => request.pawl.run(failing, null)),
    })
    await sendAsync(trial.app, { url: '/failing' })
    await completerOf(trial.engine).runOnce()
    expect(await audit(trial.database)).toEqual([])
    expect(await keyRows(trial.database)).toMatchObject([{ status: 'running', recovery_point: 'started' }])
  })
})
