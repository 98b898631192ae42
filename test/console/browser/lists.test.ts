import { readFile } from 'node:fs/promises'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { consoleOn, type TestConsole } from '../console-on.js'
import { BusyDatabase } from './busy-database.js'
import { ConsoleVisit } from './console-visit.js'
import { startBrowser } from './start-browser.js'

let busy: BusyDatabase
let console: TestConsole
let browser: Browser
let visit: ConsoleVisit
let page: Page
beforeAll(async () => {
  ;[browser, busy] = await Promise.all([startBrowser(), BusyDatabase.create()])
  console = await consoleOn(busy.database)
  visit = await ConsoleVisit.start(browser, console)
  page = visit.page
})
afterEach(() => expect(visit.faults).toEqual([]))
afterAll(async () => {
  await browser.close()
  await console.close()
  await busy.drop()
})

/** Of the table with a caption, without its head. */
const rowsOf = (caption: string) =>
  page.getByRole('table', { name: caption }).locator('tbody').getByRole('row')

async function deadCount(): Promise<number> {
  const { dead } = await busy.row<{ dead: number }>(
    'SELECT count(*)::int AS dead FROM pawl.staged_jobs WHERE dead_at IS NOT NULL',
  )
  return dead
}

describe('dead letters', () => {
  test('one is requeued, then all of a name, each with a reason', async () => {
    const before = await deadCount()
    await visit.open('dead')
    await rowsOf('Dead jobs called send_receipt').first().getByRole('button', { name: 'Requeue…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/One dead job is delivered again/).waitFor()
    await dialog.getByRole('button', { name: 'Requeue', exact: true }).click()
    await dialog.getByText('Say why').waitFor()
    await dialog.getByLabel('Reason').fill('the mailbox exists now')
    await dialog.getByRole('button', { name: 'Requeue', exact: true }).click()
    await page.getByText('Requeued 1 job.').waitFor()
    expect(await deadCount()).toBe(before - 1)

    await page.getByRole('button', { name: 'Requeue all…' }).click()
    await dialog.getByText(new RegExp(`${before - 1} dead jobs are delivered again`)).waitFor()
    await dialog.getByLabel('Reason').fill('all mailboxes exist now')
    await dialog.getByRole('button', { name: 'Requeue', exact: true }).click()
    await page.getByText('No job is dead.').waitFor()
    expect(await deadCount()).toBe(0)
    const reasons = (await busy.interventions()).map(({ reason }) => reason)
    expect(reasons).toContain('the mailbox exists now')
    expect(reasons).toContain('all mailboxes exist now')
  })
})

describe('duplicates', () => {
  test('are counted by scope, for as long as one chooses', async () => {
    await visit.open('duplicates')
    const total = rowsOf('Duplicates by scope').filter({ hasText: 'rider-1' }).locator('.cell-total')
    const { hour, quarter } = await busy.row<{ hour: number; quarter: number }>(
      `SELECT sum(replayed + in_flight + mismatched)::int AS hour,
              sum(replayed + in_flight + mismatched) FILTER (WHERE minute > clock_timestamp() - interval '15 min')::int AS quarter
         FROM pawl.duplicates WHERE scope = 'rider-1'`,
    )
    expect(await total.innerText()).toBe(String(hour))
    await page.getByRole('link', { name: '15 min' }).click()
    await page.waitForURL(/minutes=15/)
    await visit.settled()
    // The minute may have changed meanwhile.
    const shown = Number(await total.innerText())
    expect(shown).toBeGreaterThan(0)
    expect(shown).toBeLessThanOrEqual(quarter)
    expect(shown).toBeLessThan(hour)
    await page.getByRole('img', { name: /Duplicates per minute/ }).waitFor()
  })
})

describe('reconciliation', () => {
  test('sums up what a time had, and what cannot be compared', async () => {
    await visit.open('reconciliation')
    await rowsOf('Effects by pipeline and phase').filter({ hasText: 'transfer_sent' }).waitFor()
    await rowsOf('Requests of which a call is in doubt').filter({ hasText: 'ride-1003' }).waitFor()
    await rowsOf('Effects without a reference of the provider').filter({ hasText: 'payout-2001' }).waitFor()
    await page.getByLabel('To').fill('2026-01-02T03:04')
    await page.getByLabel('From').fill('2026-01-01T03:04')
    await page.getByText('No effect was recorded in this time.').waitFor()
    expect(new URL(page.url()).searchParams.get('to')).toBe('2026-01-02T02:04:00.000Z')
  })
})

describe('the audit trail', () => {
  test('is filtered, and the address says by what', async () => {
    await visit.open('interventions')
    await rowsOf('Interventions').filter({ hasText: 'They have <walked>.' }).waitFor()
    await page.getByLabel('Action').selectOption('extend')
    await rowsOf('Interventions').filter({ hasText: 'They have <walked>.' }).waitFor({ state: 'detached' })
    await rowsOf('Interventions').filter({ hasText: 'The rider disputes it.' }).waitFor()
    expect(await rowsOf('Interventions').count()).toBe(1)
    expect(page.url()).toContain('action=extend')
    await page.getByLabel('Who').fill('nobody')
    await page.getByLabel('Who').press('Enter')
    await page.getByText('Nothing matches.').waitFor()
  })

  test('comes page by page', async () => {
    await busy.database.rows(
      `INSERT INTO pawl.interventions (id, action, actor, reason, detail, created_at)
       SELECT gen_random_uuid(), 'reap', 'robot', 'round ' || n, '{}', clock_timestamp() - interval '1 year' - n * interval '1 minute'
         FROM generate_series(1, 60) AS n`,
    )
    await visit.open('interventions?actor=robot')
    await rowsOf('Interventions').nth(49).waitFor()
    expect(await rowsOf('Interventions').count()).toBe(50)
    await page.getByRole('button', { name: 'Show older ones' }).click()
    await rowsOf('Interventions').nth(59).waitFor()
    await page.getByRole('button', { name: 'Show older ones' }).waitFor({ state: 'detached' })
    await rowsOf('Interventions').filter({ hasText: 'round 60' }).waitFor()
  })

  test.each(['CSV', 'JSON'])('is exported as %s, as it is filtered', async (format) => {
    await visit.open('interventions?action=answer')
    const download = page.waitForEvent('download')
    await page.getByRole('link', { name: `Export ${format}` }).click()
    const file = await download
    expect(file.suggestedFilename()).toBe(`interventions.${format.toLowerCase()}`)
    const text = await readFile(await file.path(), 'utf8')
    expect(text).toContain('They have <walked>.')
    expect(text).not.toContain('The rider disputes it.')
  })
})

test('a search finds a key, and what a provider calls it', async () => {
  const { reference } = await busy.row<{ reference: string }>(
    `SELECT reference FROM pawl.effects WHERE key = 'ride-2003'`,
  )
  for (const text of ['ride-2003', reference]) {
    await visit.open('')
    await page.keyboard.press('/')
    await page.keyboard.type(text)
    await page.keyboard.press('Enter')
    await page.getByRole('main').getByRole('link', { name: text, exact: true }).waitFor()
    await page.getByRole('main').getByText('ride-2003').first().waitFor()
  }
})
