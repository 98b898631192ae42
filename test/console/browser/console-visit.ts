import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { TestConsole } from '../console-on.js'

export type Theme = 'dark' | 'light'

/** Who looks, and how. */
export interface VisitOptions {
  /** `anna` may do everything, `ben` may only look. */
  readonly as?: string
  readonly theme?: Theme
  readonly width?: number
  readonly height?: number
  /** How much the browser's clock is ahead of the server's. */
  readonly clockAheadMs?: number
}

/** What a browser logs when the server refuses something, or is away. The pages say so themselves. */
const FAILED_REQUEST = /^Failed to load resource:/

/** Far longer than anything takes: less than a test may, so that what is missing is named. */
const PATIENCE_MS = 15_000

/** A person at a browser of their own, who has cookies of their own. */
export class ConsoleVisit {
  readonly page: Page
  /** What no page may do: break the content security policy, throw, log an error, or ask another server. */
  readonly faults: string[] = []
  /** What the browser got of the console's server, as it would travel: by address, in bytes. */
  readonly received = new Map<string, number>()
  readonly #context: BrowserContext
  readonly #origin: string

  private constructor(context: BrowserContext, page: Page, origin: string) {
    this.#context = context
    this.page = page
    this.#origin = origin
  }

  static async start(
    browser: Browser,
    console: Pick<TestConsole, 'origin'>,
    options: VisitOptions = {},
  ): Promise<ConsoleVisit> {
    const { as = 'anna', theme = 'light', width = 1280, height = 800, clockAheadMs = 0 } = options
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: 'reduce',
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      acceptDownloads: true,
    })
    await context.addCookies([{ name: 'x-user', value: as, url: console.origin, sameSite: 'Strict' }])
    const page = await context.newPage()
    page.setDefaultTimeout(PATIENCE_MS)
    const visit = new ConsoleVisit(context, page, console.origin)
    await visit.#watch()
    if (clockAheadMs !== 0) await page.addInitScript(clockAhead(clockAheadMs))
    return visit
  }

  /** Opens a page of the console, by its address below the console's own, and waits until it shows what it was asked for. */
  async open(path: string): Promise<void> {
    await this.page.goto(`${this.#origin}/${path}`)
    await this.settled()
  }

  /** Resolves once nothing is loading any more. */
  async settled(): Promise<void> {
    await this.page.locator('main:not([aria-busy="true"]) h1').first().waitFor()
    await this.page.locator('[aria-busy="true"], .state-loading').first().waitFor({ state: 'detached' })
  }

  async end(): Promise<void> {
    await this.#context.close()
  }

  async #watch(): Promise<void> {
    const { page, faults } = this
    const { host } = new URL(this.#origin)
    page.on('console', (message) => {
      const isFault = ['error', 'warning'].includes(message.type()) && !FAILED_REQUEST.test(message.text())
      if (isFault) faults.push(`${message.type()}: ${message.text()}`)
    })
    page.on('pageerror', (error) => faults.push(`thrown: ${error.message}`))
    page.on('request', (request) => {
      const url = new URL(request.url())
      if (url.protocol !== 'data:' && url.host !== host) faults.push(`asked ${url.href}`)
    })
    await page.exposeFunction('tellViolation', (what: string) => void faults.push(`violated: ${what}`))
    await page.addInitScript(TELL_VIOLATIONS)
  }
}

/** Runs in the page. */
const TELL_VIOLATIONS = `document.addEventListener('securitypolicyviolation', ({ effectiveDirective, blockedURI }) =>
  tellViolation(effectiveDirective + ' ' + blockedURI))`

/** Runs in the page: its clock is wrong, and its timers are not. */
const clockAhead = (ms: number) => `{
  const RealDate = Date
  globalThis.Date = class Date extends RealDate {
    constructor(...given) { super(...(given.length === 0 ? [RealDate.now() + ${ms}] : given)) }
    static now() { return RealDate.now() + ${ms} }
  }
}`
