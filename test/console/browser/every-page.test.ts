import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { IS_DEEP } from '../../support/amounts.js'
import { consoleOn, type TestConsole } from '../console-on.js'
import { BusyDatabase, HOSTILE_NAMES } from './busy-database.js'
import { barriersOf, overflowOf } from './console-page.js'
import { ConsoleVisit, type Theme } from './console-visit.js'
import { SECRETS } from './shop-pipelines.js'
import { startBrowser } from './start-browser.js'

const THEMES = ['light', 'dark'] as const
/** A phone, a laptop, and a screen on the wall. */
const WIDTHS = [375, 1280, 2560] as const

/** Where `scripts/console-screenshots.mjs` wants pictures of the pages. */
const PICTURES = process.env['PAWL_SCREENSHOTS']

let busy: BusyDatabase
let console: TestConsole
let browser: Browser
let visit: ConsoleVisit | null = null
beforeAll(async () => {
  ;[browser, busy] = await Promise.all([startBrowser(), BusyDatabase.create({ hasHostileNames: !PICTURES })])
  console = await consoleOn(busy.database)
})
afterEach(async () => {
  const faults = visit?.faults ?? []
  await visit?.end()
  visit = null
  expect(faults).toEqual([])
})
afterAll(async () => {
  await browser.close()
  await console.close()
  await busy.drop()
})

/** The pages, and something that each shows only when it is filled. */
const PAGES = [
  { name: 'map', path: () => '', heading: 'Map', shows: 'charge_created' },
  { name: 'inbox', path: () => 'inbox', heading: 'Inbox', shows: 'Unknown outcome' },
  { name: 'requests', path: () => 'requests', heading: 'Requests', shows: 'ride-1003' },
  {
    name: 'stuck-request',
    path: async () => `requests/${await busy.keyIdOf('ride-1003')}`,
    heading: 'ride-1003',
    shows: 'connect ETIMEDOUT',
  },
  {
    name: 'held-request',
    path: async () => `requests/${await busy.keyIdOf('ride-3001')}`,
    heading: 'ride-3001',
    shows: 'charge_created',
  },
  {
    name: 'finished-request',
    path: async () => `requests/${await busy.keyIdOf('ride-2001')}`,
    heading: 'ride-2001',
    shows: 'The rider disputes it.',
  },
  { name: 'dead-letters', path: () => 'dead', heading: 'Dead letters', shows: '550 <mailbox>' },
  { name: 'duplicates', path: () => 'duplicates', heading: 'Duplicates', shows: '<b>rider-3</b>' },
  { name: 'reconciliation', path: () => 'reconciliation', heading: 'Reconciliation', shows: 'transfer_sent' },
  {
    name: 'interventions',
    path: () => 'interventions',
    heading: 'Interventions',
    shows: 'They have <walked>.',
  },
] as const

async function visitOf(theme: Theme): Promise<ConsoleVisit> {
  visit = await ConsoleVisit.start(browser, console, { theme })
  if (PICTURES) await callSchemaPawl(visit.page)
  return visit
}

/** Every test has a schema of its own, whose name says nothing to whoever looks at a picture. */
async function callSchemaPawl(page: Page): Promise<void> {
  await page.route('**/api/session', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...((await response.json()) as object), schema: 'pawl' } })
  })
}

/** At every width, nothing reaches beyond the window; and a picture is made of it, if somebody wants them. */
async function fits(page: Page, name: string, theme: Theme): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: width === 375 ? 812 : 900 })
    expect(await overflowOf(page), `at ${width} pixels`).toBeLessThanOrEqual(0)
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${theme}-${width}.png`) })
  }
}

/** Every page in one of the themes; in both, where more is repeated. */
function pagesIn(theme: Theme): readonly (typeof PAGES)[number][] {
  if (IS_DEEP || PICTURES) return PAGES
  return PAGES.filter((_, at) => at % THEMES.length === THEMES.indexOf(theme))
}

describe.each(THEMES)('in the %s theme', (theme) => {
  test.each(pagesIn(theme))(
    '$name shows what it is for, to everybody, at every width',
    async ({ name, path, ...has }) => {
      const { page } = await visitOf(theme)
      await visit?.open(await path())
      const main = page.getByRole('main')
      await main.getByRole('heading', { level: 1, name: has.heading }).waitFor()
      await main.getByText(has.shows).first().waitFor()
      expect(await barriersOf(page)).toEqual([])
      await fits(page, name, theme)
    },
  )

  test('the dialog of an action is for everybody, at every width', async () => {
    const { page } = await visitOf(theme)
    await visit?.open('inbox')
    const row = page.getByRole('listitem').filter({ hasText: 'ride-1003' })
    await row.getByRole('button', { name: 'It was not executed…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/counts as not executed/).waitFor()
    await dialog.getByLabel('Reason').fill('Support says that there is no such charge, and will be none.')
    expect(await barriersOf(page)).toEqual([])
    await fits(page, 'action', theme)
  })
})

test('names that clients chose are shown as text, with what cannot be seen in them written out', async () => {
  const { page } = await visitOf('light')
  const [markup, , , direction, , , , , , longest] = HOSTILE_NAMES
  for (const path of [
    'inbox',
    'requests?status=stuck',
    'reconciliation',
    `requests/${await busy.keyIdOf(markup)}`,
  ]) {
    await visit?.open(path)
    await page.getByText(markup).first().waitFor()
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.title()).not.toBe('owned')
    expect(await overflowOf(page)).toBeLessThanOrEqual(0)
  }
  await visit?.open('inbox')
  const shown = await page.getByRole('main').innerText()
  expect(direction).toContain('\u202E')
  // oxlint-disable-next-line no-control-regex
  expect(shown).not.toMatch(/[\u202E\u2066\u0007\u001B\u200B\uFEFF\u2028]/)
  expect(shown).toContain('right\\u202eto left\\u2066')
  await visit?.open(`requests/${await busy.keyIdOf(longest)}`)
  expect(await overflowOf(page)).toBeLessThanOrEqual(0)
})

test('what clients and providers sent is on no page', async () => {
  const { page } = await visitOf('light')
  for (const { path } of PAGES) {
    await visit?.open(await path())
    const html = await page.content()
    for (const secret of Object.values(SECRETS)) expect(html).not.toContain(secret)
  }
})
