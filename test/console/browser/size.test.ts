import { gzipSync } from 'node:zlib'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { TestDatabase } from '../../support/test-database.js'
import { consoleOn } from '../console-on.js'
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

/** Little enough for a slow line; what a dashboard of others weighs is several times that. */
const MAX_FIRST_LOAD_BYTES = 150_000
/** Those in sight, and as many above and below them. */
const MAX_DRAWN_ROWS = 200
const KEYS = 100_000
/** A tenth of this is what it takes on an idle machine. */
const MAX_LIST_MS = 10_000

test('the first load is under 150 kB, and everything in it comes from the console', async () => {
  const database = await TestDatabase.create()
  onTestFinished(() => database.drop())
  const visit = await visitOn(database)
  const bodies: Promise<Buffer>[] = []
  visit.page.on('response', (response) => {
    if (!response.url().endsWith('/api/events')) bodies.push(response.body())
  })
  await visit.open('')
  const loaded = await Promise.all(bodies)
  expect(loaded.length).toBeGreaterThanOrEqual(4)
  // Fonts are compressed already, and do not get smaller.
  const bytes = loaded.reduce((sum, body) => sum + Math.min(body.length, gzipSync(body).length), 0)
  expect(bytes).toBeLessThan(MAX_FIRST_LOAD_BYTES)
})

test('with a hundred thousand keys, the list comes at once, scrolls, and draws what is in sight', async () => {
  const database = await TestDatabase.createNew()
  onTestFinished(() => database.drop())
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (id, scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
       input, holder, kind, status, stuck_reason, recovery_point, created_at, updated_at)
     SELECT gen_random_uuid(), 'tenant-' || n % 100, 'key-' || lpad(n::text, 6, '0'), 'create-ride', 1, '0123456789abcdef', sha256(''), 1,
            '{}', gen_random_uuid(), 'pipeline', CASE WHEN n % 2 = 0 THEN 'stuck' ELSE 'running' END,
            CASE WHEN n % 2 = 0 THEN 'too_old' END, 'started', clock_timestamp() - ($1 - n) * interval '1 second', clock_timestamp()
       FROM generate_series(1, $1) AS n`,
    [KEYS],
  )
  await database.rows('ANALYZE pawl.idempotency_keys')
  const visit = await visitOn(database)
  const { page } = visit
  const begun = performance.now()
  await visit.open('requests')
  await page.getByRole('link', { name: 'key-000001' }).waitFor()
  expect(performance.now() - begun).toBeLessThan(MAX_LIST_MS)
  for (const shown of ['400', '600', '800', '1,000']) {
    await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)')
    await page.getByText(`${shown} shown`).waitFor()
  }
  await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)')
  await page.getByRole('link', { name: 'key-001000' }).waitFor()
  expect(await page.getByRole('row').count()).toBeLessThan(MAX_DRAWN_ROWS)
  await visit.open('')
  await page.getByRole('heading', { name: 'create-ride' }).waitFor()
})
