import { createBackground } from '@pawl/core'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startRideProcess, stopped } from '../../support/ride-process.js'
import { RideTrial } from '../../support/ride-trial.js'
import { createEngine, createRideTables } from '../../support/rides.js'
import { TestDatabase } from '../../support/test-database.js'
import { consoleOn } from '../console-on.js'
import { BusyDatabase } from './busy-database.js'
import { ConsoleVisit } from './console-visit.js'
import { startBrowser } from './start-browser.js'

let browser: Browser
beforeAll(async () => {
  browser = await startBrowser()
})
afterAll(() => browser.close())

async function visitOn(database: TestDatabase): Promise<ConsoleVisit> {
  const console = await consoleOn(database)
  const visit = await ConsoleVisit.start(browser, console)
  onTestFinished(async () => {
    await visit.end()
    await console.close()
    expect(visit.faults).toEqual([])
  })
  return visit
}

test('a process that is killed in the middle is seen as a lease that runs out, and a key that moves on', async () => {
  const database = await TestDatabase.create()
  onTestFinished(() => database.drop())
  await createRideTables(database)
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  await engine.recordPipelines()
  const visit = await visitOn(database)
  const { page } = visit
  await visit.open('')
  await page.getByRole('heading', { name: 'create-ride' }).waitFor()

  const { child, ended } = startRideProcess(trial, 'charge_created/call#1:after', 'SIGSTOP')
  await stopped(child)
  await page.getByRole('link', { name: '1 held at ride_created' }).waitFor()
  child.kill('SIGKILL')
  await ended
  // Nobody took the lease from it: it is held until it runs out, here by moving it.
  await page.getByRole('link', { name: '1 held at ride_created' }).waitFor()
  await database.expireLeases()
  await page.getByRole('link', { name: '1 unattended at ride_created' }).waitFor()

  await createBackground({ engine, reaper: false }).runOnce()
  await page.getByRole('link', { name: '1 unattended at ride_created' }).waitFor({ state: 'detached' })
  await engine.close()
  const [row] = await database.rows<{ id: string }>('SELECT id FROM pawl.idempotency_keys')
  await visit.open(`requests/${row?.id}`)
  await page.getByText('finished').first().waitFor()
})

test('a pipeline that no engine has recorded, and a version without a definition, are drawn from their rows', async () => {
  const busy = await BusyDatabase.create()
  onTestFinished(() => busy.drop())
  // The one before was never recorded, and its code is gone.
  await busy.database.rows(`DELETE FROM pawl.pipelines WHERE pipeline = 'create-ride' AND version = 1`)
  const visit = await visitOn(busy.database)
  const { page } = visit
  await visit.open('')
  const lane = (name: string) => page.getByRole('region', { name })
  await lane('legacy-import version 3')
    .getByText(/no engine has recorded its definition/)
    .waitFor()
  await lane('legacy-import version 3').getByRole('link', { name: '1 backing off at file_read' }).waitFor()
  await lane('create-ride version 1').getByRole('link', { name: '1 unattended at ride_created' }).waitFor()
  await lane('create-ride version 2').getByRole('link', { name: '3 held at ride_created' }).waitFor()
  // From the map to those that stand there.
  await lane('create-ride version 2').getByRole('link', { name: '3 held at ride_created' }).click()
  await page.getByRole('link', { name: 'ride-3001' }).waitFor()
})
