import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { startRideProcess } from '../support/ride-process.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { firstUnlessDeep, onlyDeep } from '../support/amounts.js'

const COMPLETER_PROCESS = fileURLToPath(new URL('../fixtures/completer-process.mjs', import.meta.url))

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

/** A completer in a process of its own, which may kill itself at a position, and is killed at the end of the test at the latest. */
async function startCompleter(trial: RideTrial, at = 'nowhere'): Promise<ChildProcess> {
  const { url, schema, businessSchema } = database
  const { account, url: providerUrl } = trial.provider
  const applicationName = `completer_${randomUUID()}`
  const where = { url, schema, businessSchema, applicationName, providerUrl, account, at }
  const child = fork(COMPLETER_PROCESS, [JSON.stringify(where)])
  onTestFinished(() => void child.kill('SIGKILL'))
  expect(await once(child, 'message')).toEqual(['up', undefined])
  return child
}

async function unattended(at: string): Promise<RideTrial> {
  const trial = new RideTrial(database)
  expect(await startRideProcess(trial, at, 'SIGKILL').ended).toMatchObject({ signal: 'SIGKILL' })
  return trial
}

async function expectOneOfEach(trial: RideTrial): Promise<void> {
  expect(await trial.row()).toMatchObject({ status: 'finished', recovery_point: 'finished' })
  expect(await trial.rides()).toHaveLength(1)
  expect(await trial.provider.ledger()).toHaveLength(1)
  const jobs =
    'SELECT name FROM pawl.staged_jobs JOIN pawl.idempotency_keys AS k ON k.id = key_id WHERE k.scope = $1'
  expect(await database.rows(jobs, [trial.scope])).toEqual([{ name: 'send_receipt' }])
}

describe('a client and its server die together; a completer elsewhere finishes the request', () => {
  // Real processes die at two positions here; the crash kit has all of them.
  test.each(firstUnlessDeep(1, ['charge_created/begin#1:before', 'reserve/insert_key#1:after']))(
    'killed at %s',
    async (at) => {
      const trial = await unattended(at)
      const completer = await startCompleter(trial)
      const finished = once(completer, 'message')
      await database.expireLeases()
      expect(await finished).toEqual([{ finished: 2 }, undefined])
      await expectOneOfEach(trial)
      completer.send('end')
      expect(await once(completer, 'exit')).toEqual([0, null])
    },
  )
})

onlyDeep(() => {
  describe('a completer dies as well; the next one finishes the request', () => {
    test.each(['reserve/take_over_key#1:after', 'charge_created/commit#1:before'])(
      'killed at %s',
      async (at) => {
        const trial = await unattended('ride_created/commit#1:after')
        await database.expireLeases()
        const doomed = await startCompleter(trial, at)
        expect(await once(doomed, 'exit')).toEqual([null, 'SIGKILL'])
        const next = await startCompleter(trial)
        const finished = (await trial.row())?.status === 'finished' ? null : once(next, 'message')
        await database.expireLeases()
        await finished
        await expectOneOfEach(trial)
      },
    )
  })
})

onlyDeep(() => {
  test('of three completers in processes of their own and a client that retries, one finishes the request', async () => {
    const trial = await unattended('ride_created/commit#1:after')
    await Promise.all([startCompleter(trial), startCompleter(trial), startCompleter(trial)])
    const engine = createEngine(trial.options())
    await database.expireLeases()
    let outcome = await trial.execute(engine)
    while (outcome.type === 'in_flight') outcome = await trial.execute(engine)
    expect(['completed', 'replayed']).toContain(outcome.type)
    await expectOneOfEach(trial)
    expect(await trial.row()).toMatchObject({ fence: '2' })
    await engine.close()
  })
})
