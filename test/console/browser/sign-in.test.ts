import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startConsole } from '@pawl/console'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDatabase } from '../../support/test-database.js'
import { startBrowser } from './start-browser.js'

let database: TestDatabase
let browser: Browser
beforeAll(async () => {
  ;[database, browser] = await Promise.all([TestDatabase.create(), startBrowser()])
})
afterAll(() => Promise.all([database.drop(), browser.close()]))

test('who follows the printed address is signed in, and what another user serves on this machine gets no session', async () => {
  const console = await startConsole({ url: database.url, schema: database.schema, port: 0, actor: 'anna' })
  const asked: (string | undefined)[] = []
  const others = createServer(({ headers }, response) => {
    asked.push(headers.cookie)
    response.setHeader('content-type', 'text/html').end('<h1>Another page</h1>')
  }).listen(0, '127.0.0.1')
  await once(others, 'listening')
  const { port } = others.address() as AddressInfo
  const context = await browser.newContext({ locale: 'en-GB' })
  const page = await context.newPage()
  try {
    await page.goto(console.address)
    await page.getByRole('heading', { name: 'Map' }).waitFor()
    expect(page.url()).toBe(`${console.origin}/`)
    const cookies = await context.cookies(console.origin)
    expect(cookies.map(({ name }) => name)).toContainEqual(expect.stringMatching(/^pawl-console-\d+$/))

    for (const path of ['', 'enter/x', 'api/session']) {
      await page.goto(`http://127.0.0.1:${port}/${path}`)
      await page.getByRole('heading', { name: 'Another page' }).waitFor()
    }
    expect(asked.length).toBeGreaterThanOrEqual(3)
    expect(asked.join(';')).not.toMatch(/pawl-console-\d+=/)

    // It is still signed in, and an address of before leads to a page that says what to do.
    await page.goto(`${console.origin}/inbox`)
    await page.getByRole('heading', { name: 'Inbox' }).waitFor()
    await page.goto(new URL('/inbox', console.origin).href)
    await page.getByText('has not signed this browser in').waitFor()
  } finally {
    await context.close()
    others.close()
    await console.close()
  }
})
