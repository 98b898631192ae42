import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** A browser that is ready to start. */
export interface Chromium {
  readonly path: string
  readonly env: Readonly<Record<string, string>>
}

const CACHE = fileURLToPath(new URL('../../../.cache', import.meta.url))
const PACKAGE = createRequire(import.meta.url).resolve('@sparticuz/chromium')

/** It unpacks what it finds only there: the libraries that a machine without a desktop may lack. */
const AS_IF_ON_LAMBDA = { AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x' }

const UNPACK = `
  const { default: chromium } = await import(${JSON.stringify(PACKAGE.replace('/cjs/index.cjs', '/esm/index.js'))})
  await chromium.executablePath()`

/**
 * Unpacks the Chromium of the npm package, once per checkout. Left to itself, it would unpack to the one folder of the whole machine
 * where temporary files are, and another process would start it half unpacked.
 */
export async function unpackChromium(): Promise<Chromium> {
  const folder = join(CACHE, `chromium-${await versionOf(PACKAGE)}`)
  if (!existsSync(folder)) await unpackTo(folder)
  return {
    path: join(folder, 'chromium'),
    env: { LD_LIBRARY_PATH: join(folder, 'al2023/lib'), FONTCONFIG_FILE: join(folder, 'fonts.conf') },
  }
}

async function versionOf(file: string): Promise<string> {
  const manifest = await readFile(join(file, '../../../package.json'), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** Whoever else unpacks it at the same time gets the same: the folder appears as a whole, and the first one stays. */
async function unpackTo(folder: string): Promise<void> {
  await mkdir(CACHE, { recursive: true })
  const unpacked = await mkdtemp(`${folder}-`)
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', UNPACK], {
    env: { ...process.env, ...AS_IF_ON_LAMBDA, TMPDIR: unpacked },
  })
  await writeFile(join(unpacked, 'fonts.conf'), fontsIn(folder))
  // The next one who runs the tests here may be another user.
  for (const path of [unpacked, join(unpacked, 'chromium')]) await chmod(path, 0o755)
  try {
    await rename(unpacked, folder)
  } catch (error) {
    await rm(unpacked, { recursive: true })
    if (!existsSync(folder)) throw error
  }
}

/** No others: text has the same width on every machine, also on one that has no fonts. */
function fontsIn(folder: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>${folder}/fonts</dir><cachedir>${folder}/fonts-cache</cachedir></fontconfig>
`
}
