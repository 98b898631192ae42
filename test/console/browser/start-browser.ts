import { type Browser, chromium } from 'playwright-core'
import { unpackChromium } from './unpack-chromium.js'

/**
 * Starts a browser: the one that is named by `CHROMIUM`, or the one that comes from npm, which is built for Linux on x64. On other
 * machines, the Chrome that is installed there.
 */
export async function startBrowser(): Promise<Browser> {
  const given = process.env['CHROMIUM']
  if (given) return chromium.launch({ executablePath: given })
  if (process.platform !== 'linux' || process.arch !== 'x64') return chromium.launch({ channel: 'chrome' })
  const { path, env } = await unpackChromium()
  return chromium.launch({
    executablePath: path,
    env: { ...process.env, ...env },
    // The same pixels, whatever the machine's settings say.
    args: ['--font-render-hinting=none', '--force-color-profile=srgb'],
  })
}
