import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** What the lint configuration has to say about an import, by the file that contains it. */
const CASES = [
  ['core/src/pipeline/a.ts', `import { x } from '../errors.js'`, 'allowed'],
  ['core/src/pipeline/b.ts', `import { x } from '../storage/x.js'`, 'refused'],
  ['core/src/pipeline/c.ts', `import type { x } from '../announce/x.js'`, 'refused'],
  ['core/src/query/a.ts', `import { x } from '../errors.js'`, 'allowed'],
  ['core/src/query/b.ts', `import type { x } from '../driver/x.js'`, 'refused'],
  ['core/src/run/e.ts', `import { x } from '../query/x.js'`, 'refused'],
  ['core/src/announce/a.ts', `import { x } from '../driver/x.js'`, 'refused'],
  ['core/src/driver/a.ts', `import { x } from '../pipeline/x.js'`, 'refused'],
  ['core/src/storage/a.ts', `import { x } from '../driver/x.js'`, 'allowed'],
  ['core/src/storage/b.ts', `import type { x } from '../pipeline/x.js'`, 'allowed'],
  ['core/src/storage/c.ts', `import { x } from '../pipeline/x.js'`, 'refused'],
  ['core/src/storage/schema/migrations/d.ts', `import { x } from '../../../request/x.js'`, 'refused'],
  ['core/src/request/a.ts', `import { x } from '../storage/x.js'`, 'allowed'],
  ['core/src/request/b.ts', `import { x } from '../run/x.js'`, 'refused'],
  ['core/src/request/c.ts', `import type { x } from '../engine/x.js'`, 'refused'],
  ['core/src/run/a.ts', `import { x } from '../storage/x.js'`, 'allowed'],
  ['core/src/run/b.ts', `import type { x } from '../request/x.js'`, 'refused'],
  ['core/src/run/c.ts', `import { x } from '../engine/x.js'`, 'refused'],
  ['core/src/erase/a.ts', `import { x } from '../storage/x.js'`, 'allowed'],
  ['core/src/erase/b.ts', `import type { x } from '../engine/x.js'`, 'refused'],
  ['core/src/engine/a.ts', `import { x } from '../request/x.js'`, 'allowed'],
  ['core/src/engine/b.ts', `import { x } from '../run/x.js'`, 'allowed'],
  ['core/src/engine/c.ts', `export { x } from '../background/x.js'`, 'refused'],
  ['core/src/engine/d.ts', `export const x = import('../background/x.js')`, 'refused'],
  ['core/src/background/a.ts', `import { x } from '../engine/x.js'`, 'allowed'],
  ['core/src/background/b.ts', `import { x } from '../index.js'`, 'refused'],
  ['core/src/limits.ts', `import { x } from './internal.js'`, 'refused'],
  ['core/src/index.ts', `export { x } from './engine/x.js'`, 'allowed'],
  ['other/src/a.ts', `import { x } from '@pawl/core/internal'`, 'allowed'],
  ['other/src/b.ts', `import { x } from '../../core/src/index.js'`, 'refused'],
  ['other/src/c.ts', `import { x } from '@pawl/crash-kit'`, 'refused'],
  ['other/src/d.ts', `import { x } from '../../../test/x.js'`, 'refused'],
  ['other/src/e.ts', `import { x } from '@pawl/dev-postgres'`, 'refused'],
  ['other/src/f.ts', `import { x } from '../../dev-postgres/src/index.js'`, 'refused'],
  ['core/src/run/d.ts', `import { x } from '@pawl/dev-postgres'`, 'refused'],
  ['dev-postgres/src/a.ts', `import { x } from '@pawl/crash-kit'`, 'refused'],
  ['crash-kit/src/database/a.ts', `import { x } from '@pawl/dev-postgres'`, 'allowed'],
  ['crash-kit/src/database/b.ts', `import { x } from '../history.js'`, 'allowed'],
  ['crash-kit/src/database/c.ts', `import { x } from '@pawl/core/internal'`, 'allowed'],
  ['crash-kit/src/database/d.ts', `import { x } from '../../../dev-postgres/src/index.js'`, 'refused'],
  ['crash-kit/src/database/e.ts', `import { x } from '../../../core/src/index.js'`, 'refused'],
  ['crash-kit/src/database/f.ts', `import { x } from '@pawl/crash-kit'`, 'refused'],
  ['crash-kit/src/database/g.ts', `import type { x } from '../actors/x.js'`, 'refused'],
  ['crash-kit/src/plan/a.ts', `import { x } from '../safe-text.js'`, 'allowed'],
  ['crash-kit/src/plan/b.ts', `import type { x } from '../finding/x.js'`, 'refused'],
  ['crash-kit/src/plan/c.ts', `import { x } from '../kit-options.js'`, 'refused'],
  ['crash-kit/src/provider/a.ts', `import type { x } from '../history.js'`, 'allowed'],
  ['crash-kit/src/provider/b.ts', `import type { x } from '../faults/x.js'`, 'refused'],
  ['crash-kit/src/oracle/a.ts', `import { x } from '../limits.js'`, 'allowed'],
  ['crash-kit/src/oracle/b.ts', `import type { x } from '../finding/x.js'`, 'refused'],
  ['crash-kit/src/oracle/c.ts', `import { x } from '@pawl/core/dist/x.js'`, 'refused'],
  ['crash-kit/src/finding/a.ts', `import { x } from '../plan/x.js'`, 'allowed'],
  ['crash-kit/src/finding/b.ts', `import type { x } from '../actors/x.js'`, 'refused'],
  ['crash-kit/src/actors/a.ts', `import { x } from '../database/x.js'`, 'allowed'],
  ['crash-kit/src/actors/b.ts', `import type { x } from '../process/x.js'`, 'refused'],
  ['crash-kit/src/actors/c.ts', `import { x } from '../finding/x.js'`, 'refused'],
  ['crash-kit/src/process/a.ts', `import { x } from '../actors/x.js'`, 'allowed'],
  ['crash-kit/src/process/b.ts', `import type { x } from '../case/x.js'`, 'refused'],
  ['crash-kit/src/faults/a.ts', `import { x } from '../actors/x.js'`, 'allowed'],
  ['crash-kit/src/faults/b.ts', `import { x } from '../case/x.js'`, 'refused'],
  ['crash-kit/src/case/a.ts', `import { x } from '../process/x.js'`, 'allowed'],
  ['crash-kit/src/case/b.ts', `import type { x } from '../explore/x.js'`, 'refused'],
  ['crash-kit/src/explore/a.ts', `import { x } from '../oracle/x.js'`, 'allowed'],
  ['crash-kit/src/explore/b.ts', `import { x } from '../races/x.js'`, 'refused'],
  ['crash-kit/src/races/a.ts', `import { x } from '../explore/x.js'`, 'allowed'],
  ['crash-kit/src/races/b.ts', `import { x } from '../kit.js'`, 'refused'],
  ['crash-kit/src/kit.ts', `import { x } from './races/x.js'`, 'allowed'],
] as const

let folder: string
let complaints: string

// One run over a copy of the layout, beside the checkout: a wrong file in the real one would fail everyone else.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-lint-'))
  await copyFile(join(ROOT, '.oxlintrc.json'), join(folder, '.oxlintrc.json'))
  for (const [file, code] of CASES) {
    const path = join(folder, 'packages', file)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, `${code}\n`)
  }
  const flags = ['--allow=all', '--deny=no-restricted-imports', '--format=unix']
  complaints = await new Promise((resolve) => {
    execFile(join(ROOT, 'node_modules/.bin/oxlint'), flags, { cwd: folder }, (_error, stdout) =>
      resolve(stdout),
    )
  })
})

afterAll(() => rm(folder, { recursive: true, force: true }))

test.each(CASES)('%s: %s is %s', (file, _code, expected) => {
  const line = complaints.split('\n').find((each) => each.startsWith(`packages/${file}:`))
  expect(line === undefined ? 'allowed' : 'refused').toBe(expected)
  if (line !== undefined) expect(line).toContain('no-restricted-imports')
})
