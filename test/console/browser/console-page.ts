import axe, { type AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'

/** What people with a screen reader, or little sight, could not use: one line each. */
export async function barriersOf(page: Page): Promise<string[]> {
  // Through the debugger: the policy of the page lets no script in.
  await page.evaluate(axe.source)
  const { violations } = (await page.evaluate(
    `axe.run(document, { resultTypes: ['violations'], preload: false })`,
  )) as AxeResults
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, help, nodes }) => nodes.map(({ target }) => `${id}: ${help}: ${target.join(' ')}`))
}

/** How far the page reaches beyond the window, to the right, once what is drawn by scripts has its new size. */
export async function overflowOf(page: Page): Promise<number> {
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  return (await page.evaluate(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  )) as number
}

/** The element that has the focus, by its role and text. */
export async function focusOf(page: Page): Promise<string> {
  return (await page.evaluate(
    `(({ tagName, ariaLabel, textContent, id }) => tagName.toLowerCase() + ' ' + (ariaLabel ?? (textContent || id)).trim())(document.activeElement)`,
  )) as string
}

/** Presses Tab until something has the focus. Nobody presses it more often than this. */
export async function tabTo(page: Page, what: RegExp, atMost = 80): Promise<void> {
  for (let pressed = 0; pressed < atMost; pressed++) {
    await page.keyboard.press('Tab')
    if (what.test(await focusOf(page))) return
  }
  throw new Error(`Tab does not get to ${what}; it is at ${await focusOf(page)}.`)
}
