import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { consoleOn, type TestConsole } from '../console-on.js'
import { BusyDatabase, HOSTILE_NAMES } from './busy-database.js'
import { barriersOf, focusOf, tabTo } from './console-page.js'
import { ConsoleVisit, type VisitOptions } from './console-visit.js'
import { startBrowser } from './start-browser.js'

let busy: BusyDatabase
let console: TestConsole
let browser: Browser
const visits: ConsoleVisit[] = []
beforeAll(async () => {
  ;[browser, busy] = await Promise.all([startBrowser(), BusyDatabase.create()])
  console = await consoleOn(busy.database)
})
afterEach(async () => {
  const faults = visits.flatMap((visit) => visit.faults)
  await Promise.all(visits.splice(0).map((visit) => visit.end()))
  expect(faults).toEqual([])
})
afterAll(async () => {
  await browser.close()
  await console.close()
  await busy.drop()
})

async function look(path: string, options?: VisitOptions): Promise<Page> {
  const visit = await ConsoleVisit.start(browser, console, options)
  visits.push(visit)
  await visit.open(path)
  return visit.page
}

interface KeyState {
  readonly status: string
  readonly stuckReason: string | null
  readonly expiresAt: Date | null
}

async function stateOf(key: string): Promise<KeyState | null> {
  const [row] = await busy.database.rows<KeyState>(
    'SELECT status, stuck_reason AS "stuckReason", expires_at AS "expiresAt" FROM pawl.idempotency_keys WHERE key = $1',
    [key],
  )
  return row ?? null
}

/** The last thing that was done to a key. */
async function lastNoteOf(keyId: string) {
  const [note] = await busy.database.rows<{ action: string; actor: string; reason: string }>(
    'SELECT action, actor, reason FROM pawl.interventions WHERE key_id = $1 ORDER BY created_at DESC LIMIT 1',
    [keyId],
  )
  return note ?? null
}

/** The row of the inbox that is about a key. */
const rowOf = (page: Page, key: string): Locator =>
  page.getByRole('listitem').filter({ has: page.getByRole('link', { name: key, exact: true }) })

/** Opens the dialog of an action, and waits for what it says that it will do. */
async function choose(within: Page | Locator, page: Page, action: string, says: RegExp): Promise<Locator> {
  await within.getByRole('button', { name: `${action}…`, exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(says).waitFor()
  return dialog
}

const done = (page: Page, says: RegExp) => page.getByRole('status').getByText(says).waitFor()

describe('from the inbox', () => {
  test('a request is retried, and leaves the inbox', async () => {
    const page = await look('inbox')
    const dialog = await choose(
      rowOf(page, 'ride-1002'),
      page,
      'Retry',
      /goes on from charge_created\. Then: .*seat_taken/,
    )
    expect(await stateOf('ride-1002')).toMatchObject({ status: 'stuck' })
    expect(await barriersOf(page)).toEqual([])
    await dialog.getByLabel('Reason').fill('seat_taken is fixed in 2.4.1')
    await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
    await done(page, /It is running again/)
    await rowOf(page, 'ride-1002').waitFor({ state: 'detached' })
    expect(await stateOf('ride-1002')).toMatchObject({ status: 'running' })
    expect(await lastNoteOf(await busy.keyIdOf('ride-1002'))).toEqual({
      action: 'unstick',
      actor: 'anna@example.com',
      reason: 'seat_taken is fixed in 2.4.1',
    })
    await busy.complete()
    expect(await stateOf('ride-1002')).toMatchObject({ status: 'finished' })
  })

  test('a call is marked as executed, with its result', async () => {
    const page = await look('inbox')
    await rowOf(page, 'permit-1005').getByRole('button', { name: 'It was executed…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Fill this in to see it.').waitFor()
    const result = dialog.getByLabel(/What the call would have returned/)
    await result.fill('{"id": fax_88}')
    await dialog.getByText('This is not JSON.').waitFor()
    await result.fill('{"id": "fax_88"}')
    await dialog.getByText(/permit_faxed' counts as executed/).waitFor()
    await dialog.getByLabel('Reason').fill('journal of the fax: all 3 pages went out')
    await dialog.getByRole('button', { name: 'Mark as executed' }).click()
    await done(page, /counts as executed/)
    await busy.complete()
    expect(await stateOf('permit-1005')).toMatchObject({ status: 'finished' })
    const [effect] = await busy.database.rows('SELECT reference FROM pawl.effects WHERE key = $1', [
      'permit-1005',
    ])
    expect(effect).toEqual({ reference: 'fax_88' })
  })

  test('a call is marked as not executed, and the dialog says what that risks', async () => {
    const page = await look('inbox')
    const dialog = await choose(
      rowOf(page, 'ride-1003'),
      page,
      'It was not executed',
      /under a new provider key: if the provider did execute the first one, it happens twice/,
    )
    await dialog.getByLabel('Reason').fill('no such charge in the dashboard')
    await dialog.getByRole('button', { name: 'Mark as not executed' }).click()
    await done(page, /counts as not executed/)
    expect(await stateOf('ride-1003')).toMatchObject({ status: 'running' })
  })

  test('a request is answered', async () => {
    const page = await look('inbox')
    const dialog = await choose(rowOf(page, 'ride-1004'), page, 'Answer', /your response, status 410/)
    const status = dialog.getByLabel('Status')
    await status.fill('503')
    await dialog.getByText('A status from 200 to 499.').waitFor()
    await status.fill('404')
    await dialog.getByText(/your response, status 404/).waitFor()
    await dialog.getByLabel('Body, as JSON').fill('{"code":"too_late"}')
    await dialog.getByLabel('Reason').fill('a day late, the rider has walked')
    await dialog.getByRole('button', { name: 'Answer', exact: true }).click()
    await done(page, /finished with your response, status 404/)
    expect(await stateOf('ride-1004')).toMatchObject({ status: 'finished' })
  })

  test('nothing happens without a reason, and Escape takes nothing', async () => {
    const page = await look('inbox')
    const dialog = await choose(rowOf(page, 'ride-1012'), page, 'Retry', /becomes running again/)
    await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
    await dialog.getByText('Say why, for whoever reads it next year.').waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(await stateOf('ride-1012')).toMatchObject({ status: 'stuck' })
    expect(await lastNoteOf(await busy.keyIdOf('ride-1012'))).toBeNull()
  })

  test('a name of markup is text in the dialog as well', async () => {
    const [markup] = HOSTILE_NAMES
    const page = await look('inbox')
    const dialog = await choose(rowOf(page, markup), page, 'It was not executed', /counts as not executed/)
    await dialog.getByText(markup).first().waitFor()
    expect(await page.title()).not.toBe('owned')
  })

  test('all of it can be done without a mouse', async () => {
    const page = await look('inbox')
    await tabTo(page, /^a day-320/)
    await tabTo(page, /^button Retry…/)
    await page.keyboard.press('Enter')
    await page
      .getByRole('dialog')
      .getByText(/becomes running again/)
      .waitFor()
    await tabTo(page, /^textarea/)
    await page.keyboard.type('The ledger is mended.')
    await tabTo(page, /^button Cancel/)
    await page.keyboard.press('Enter')
    await expect.poll(() => focusOf(page)).toBe('button Retry…')
    await page.keyboard.press('Enter')
    await page
      .getByRole('dialog')
      .getByText(/becomes running again/)
      .waitFor()
    await tabTo(page, /^textarea/)
    await page.keyboard.type('The ledger is mended.')
    await tabTo(page, /^button Retry$/)
    await page.keyboard.press('Enter')
    await done(page, /It is running again/)
    expect(await lastNoteOf(await busy.keyIdOf('day-320'))).toMatchObject({ reason: 'The ledger is mended.' })
  })
})

const open = async (key: string) => look(`requests/${await busy.keyIdOf(key)}`)

describe('from the page of a request', () => {
  test('its answer is kept for longer', async () => {
    const page = await open('ride-2004')
    const dialog = await choose(page, page, 'Keep for longer', /It is kept until/)
    // In winter, Berlin is an hour ahead.
    const day = `${new Date().getFullYear() + 1}-01-31`
    await dialog.getByLabel('Until').fill(`${day}T04:05`)
    await dialog.getByText(`It is kept until ${day}T03:05:00.000Z`).waitFor()
    await dialog.getByLabel('Reason').fill('a dispute')
    await dialog.getByRole('button', { name: 'Keep', exact: true }).click()
    await done(page, /It is kept until/)
    expect((await stateOf('ride-2004'))?.expiresAt?.toISOString()).toBe(`${day}T03:05:00.000Z`)
  })

  test('it is forgotten, once its effects are said to be undone', async () => {
    const page = await open('ride-2005')
    const dialog = await choose(page, page, 'Forget', /Its phases have had effects: charge_created/)
    expect(await dialog.getByRole('button', { name: 'Forget', exact: true }).isDisabled()).toBe(true)
    await dialog.getByLabel('I have undone its effects at the provider').check()
    await dialog.getByText(/Its row is deleted/).waitFor()
    await dialog.getByLabel('Reason').fill('a wrong answer')
    await dialog.getByRole('button', { name: 'Forget', exact: true }).click()
    await done(page, /Its row is deleted/)
    expect(await stateOf('ride-2005')).toBeNull()
  })

  test('it is erased, and the dialog counts what goes', async () => {
    const page = await open('ride-2006')
    const dialog = await choose(page, page, 'Erase', /This would erase: 0 keys/)
    await dialog.getByLabel(/Also effects of the last day/).check()
    await dialog.getByText(/This would erase: 1 key, 1 effect/).waitFor()
    await dialog.getByLabel('Reason').fill('their request of 3 November')
    await dialog.getByRole('button', { name: 'Erase', exact: true }).click()
    await done(page, /^Erased: 1 key, 1 effect/)
    expect(await stateOf('ride-2006')).toBeNull()
  })

  test('the lease of a holder that is dead is taken', async () => {
    const page = await open('ride-3003')
    const dialog = await choose(page, page, 'Take the lease', /taken from its holder at once/)
    await dialog.getByLabel('Reason').fill('its machine burnt down')
    await dialog.getByRole('button', { name: 'Take the lease', exact: true }).click()
    await done(page, /lease is taken/)
    expect(await lastNoteOf(await busy.keyIdOf('ride-3003'))).toMatchObject({ action: 'revoke' })
  })
})

describe('two people at once', () => {
  test('one gets through, and the other is told who that was', async () => {
    const key = 'permit-1015'
    const pages = await Promise.all(['anna', 'berta'].map((as) => look('inbox', { as })))
    const dialogs = await Promise.all(
      pages.map((page) => choose(rowOf(page, key), page, 'It was not executed', /counts as not executed/)),
    )
    for (const [nth, dialog] of dialogs.entries())
      await dialog.getByLabel('Reason').fill(`reason of ${['anna', 'berta'][nth]}`)
    await Promise.all(
      dialogs.map((dialog) => dialog.getByRole('button', { name: 'Mark as not executed' }).click()),
    )
    await Promise.race(pages.map((page) => done(page, /counts as not executed/)))
    const notes = await busy.database.rows<{ actor: string; reason: string }>(
      'SELECT actor, reason FROM pawl.interventions WHERE key_id = $1',
      [await busy.keyIdOf(key)],
    )
    expect(notes).toHaveLength(1)
    const second = notes[0]?.actor === 'anna@example.com' ? 1 : 0
    const told = dialogs[second]?.getByRole('alert')
    await told?.getByText('Nothing was changed.').waitFor()
    const text = (await told?.innerText()) ?? ''
    expect(text).toContain(`${notes[0]?.actor} was first`)
    expect(text).toContain(notes[0]?.reason)
  })

  test('whoever opens a dialog late is told before they have written anything', async () => {
    const key = 'ride-1012'
    const late = await look('inbox')
    await rowOf(late, key).waitFor()
    // The page does not hear of it: it is as somebody else's page was a moment ago.
    await late.route('**/api/inbox', (route) => route.abort())
    await late.route('**/api/events', (route) => route.abort())
    const { body } = await console
      .as('berta')
      .get<{ key: { revision: number } }>(`api/requests/${await busy.keyIdOf(key)}`)
    await console.as('berta').post(`api/requests/${await busy.keyIdOf(key)}/retry`, {
      ifRevision: body.key.revision,
      reason: 'fixed <b>already</b>',
    })
    await rowOf(late, key).getByRole('button', { name: 'Retry…' }).click()
    const dialog = late.getByRole('dialog')
    await dialog.getByText('It cannot be done').waitFor()
    await dialog.getByText('berta@example.com', { exact: true }).waitFor()
    await dialog.getByText('fixed <b>already</b>').waitFor()
    expect(await dialog.getByRole('button', { name: 'Retry', exact: true }).isDisabled()).toBe(true)
  })
})

test('who may only look sees everything, and no button that changes anything', async () => {
  for (const path of ['inbox', 'dead', `requests/${await busy.keyIdOf('ride-2001')}`]) {
    const page = await look(path, { as: 'ben' })
    await page.getByText('ben@example.com').first().waitFor()
    expect(await page.getByRole('main').getByRole('button').filter({ hasText: '…' }).count()).toBe(0)
  }
})
