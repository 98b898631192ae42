import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { PostgresProxy } from '../../support/postgres-proxy.js'
import { TestDatabase } from '../../support/test-database.js'
import { consoleOn } from '../console-on.js'
import { BusyDatabase } from './busy-database.js'
import { barriersOf } from './console-page.js'
import { ConsoleVisit, type VisitOptions } from './console-visit.js'
import { startBrowser } from './start-browser.js'
import { firstUnlessDeep, onlyDeep } from '../../support/amounts.js'

let busy: BusyDatabase
let browser: Browser
beforeAll(async () => {
  ;[browser, busy] = await Promise.all([startBrowser(), BusyDatabase.create()])
})
afterAll(async () => {
  await browser.close()
  await busy.drop()
})

async function visitOn(origin: string, options?: VisitOptions): Promise<ConsoleVisit> {
  const visit = await ConsoleVisit.start(browser, { origin }, options)
  onTestFinished(async () => {
    await visit.end()
    expect(visit.faults).toEqual([])
  })
  return visit
}

test('a console that stops is told, and what was shown stays; when it is back, the page goes on by itself', async () => {
  const console = await consoleOn(busy.database)
  const visit = await visitOn(console.origin)
  const { page } = visit
  await visit.open('inbox')
  await page.getByText('Live', { exact: true }).waitFor()
  const { port } = new URL(console.url)
  await console.close()
  await page.getByText('Reconnecting', { exact: true }).waitFor()
  await page.getByText('The console does not answer.').waitFor()
  await page.getByText('What you see is of before.').waitFor()
  await page.getByRole('link', { name: 'permit-1005' }).waitFor()
  expect(await barriersOf(page)).toEqual([])
  const back = await consoleOn(busy.database, {}, '/ops/pawl', Number(port))
  onTestFinished(() => back.close())
  await page.getByRole('button', { name: 'Try now' }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  await page.getByText('The console does not answer.').waitFor({ state: 'detached' })
})

test('while it is away, an action says that nobody knows whether it was done', async () => {
  const console = await consoleOn(busy.database)
  const visit = await visitOn(console.origin)
  const { page } = visit
  await visit.open('inbox')
  const row = page.getByRole('listitem').filter({ hasText: 'ride-1012' })
  await row.getByRole('button', { name: 'Retry…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(/becomes running again/).waitFor()
  await console.close()
  await dialog.getByLabel('Reason').fill('now?')
  await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
  await dialog.getByText('Nobody knows whether it was done: look at the request again.').waitFor()
})

describe('the database', () => {
  test('goes away and comes back, and the page says so at once, both times', async () => {
    const proxy = await PostgresProxy.start(busy.database.url)
    const pool = busy.database.pool({ connectionString: proxy.url })
    const readPool = busy.database.pool({ connectionString: proxy.url })
    const console = await consoleOn(busy.database, { pool, readPool })
    onTestFinished(() => console.close())
    const visit = await visitOn(console.origin)
    const { page } = visit
    await visit.open('inbox')
    await page.getByText('Live', { exact: true }).waitFor()
    // Events may come before the answer, and it is to be there before the database goes.
    await page.getByRole('link', { name: 'permit-1005' }).waitFor()
    await proxy.close()
    await page.getByText('Database away', { exact: true }).waitFor()
    await page.getByText('The database cannot be reached.').first().waitFor()
    await page.getByRole('link', { name: 'permit-1005' }).waitFor()
    // A page that has shown nothing yet says so as well.
    await page.getByRole('link', { name: 'Dead letters' }).first().click()
    await page.getByRole('alert').getByText('The database cannot be reached.').waitFor()
    expect(await barriersOf(page)).toEqual([])
    const back = await PostgresProxy.start(busy.database.url, Number(new URL(proxy.url).port))
    onTestFinished(() => back.close())
    await page.getByText('Live', { exact: true }).waitFor()
    // What could not be shown is asked for again by itself.
    await page.getByText('send_receipt').first().waitFor()
  })

  onlyDeep(() => {
    test('that is not migrated: every page says what to run', async () => {
      const database = await TestDatabase.createPlain()
      onTestFinished(() => database.drop())
      const console = await consoleOn(database, { schema: 'not_migrated' })
      onTestFinished(() => console.close())
      const visit = await visitOn(console.origin)
      for (const path of ['', 'inbox', 'requests', 'dead', 'duplicates', 'reconciliation', 'interventions']) {
        await visit.open(path)
        await visit.page.getByText('pawl migrate --schema not_migrated').first().waitFor()
        expect(await barriersOf(visit.page)).toEqual([])
      }
    })
  })
})

describe.each(
  firstUnlessDeep(1, [
    { ahead: 'an hour ahead', clockAheadMs: 3_600_000 },
    { ahead: 'an hour behind', clockAheadMs: -3_600_000 },
  ]),
)('with the clock of the browser $ahead', ({ clockAheadMs }) => {
  test('ages and leases are those of the database', async () => {
    const console = await consoleOn(busy.database)
    onTestFinished(() => console.close())
    const visit = await visitOn(console.origin, { clockAheadMs })
    const { page } = visit
    await visit.open(`requests/${await busy.keyIdOf('ride-901')}`)
    const { ageMs } = await busy.row<{ ageMs: number }>(
      `SELECT (extract(epoch FROM clock_timestamp() - created_at) * 1000)::float AS "ageMs" FROM pawl.idempotency_keys WHERE key = 'ride-901'`,
    )
    const minutes = Math.floor(ageMs / 60_000)
    await page
      .getByText(new RegExp(`\\b(?:${minutes}|${minutes + 1})m\\b`))
      .first()
      .waitFor()
    await page.getByText('unattended').first().waitFor()
    await visit.open(`requests/${await busy.keyIdOf('ride-3001')}`)
    await page.getByText('held').first().waitFor()
    await page.getByRole('button', { name: 'Take the lease…' }).waitFor()
  })
})
