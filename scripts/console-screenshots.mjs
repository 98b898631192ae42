// Makes the pictures of the console that the README and docs/console.md show: `node scripts/console-screenshots.mjs`, after a build. The
// pages are those of a database that engines have filled; which of them a picture is made of, and in which themes, is said here.
import { copyFile, mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bin, ROOT, run, StepFailed } from './step.mjs'

const TO = join(ROOT, 'docs/images')
const WIDTH = 1280
const THEMES = ['light', 'dark']
const PAGES = ['map', 'inbox', 'stuck-request', 'duplicates', 'action']

/** A page with several of them is still read on a slow line. */
const MAX_BYTES = 200_000

const folder = await mkdtemp(join(tmpdir(), 'pawl-console-'))
try {
  await run(
    bin('vitest', 'test'),
    [
      'run',
      'console/browser/every-page.test.ts',
      '-t',
      '(map|inbox|stuck-request|duplicates|dialog).* at every width',
    ],
    {
      cwd: 'test',
      env: { PAWL_SCREENSHOTS: folder },
    },
  )
  await mkdir(TO, { recursive: true })
  for (const page of PAGES) {
    for (const theme of THEMES) {
      const picture = join(folder, `${page}-${theme}-${WIDTH}.png`)
      const { size } = await stat(picture)
      if (size > MAX_BYTES)
        throw new StepFailed(`${page} in ${theme} has ${size} bytes, more than ${MAX_BYTES}.`)
      await copyFile(picture, join(TO, `console-${page}-${theme}.png`))
    }
  }
} finally {
  await rm(folder, { recursive: true })
}
