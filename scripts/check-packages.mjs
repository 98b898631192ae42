import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listPackages } from './packages.mjs'
import { bin, pnpm, run } from './step.mjs'

/** Packs every package that will be published and checks what a user would get. */
export async function checkPackages() {
  const published = (await listPackages()).filter(({ manifest }) => manifest.private !== true)
  // Not in the packages' folders, where two runs at once would delete each other's archives.
  const folder = await mkdtemp(join(tmpdir(), 'pawl-packages-'))
  try {
    for (const { folder: source } of published) {
      // pnpm's, because it writes real versions in place of `workspace:`, as publishing does.
      await pnpm(['--dir', source, 'pack', '--pack-destination', folder])
    }
    for (const archive of (await readdir(folder)).toSorted()) {
      await run(bin('publint'), ['--strict', join(folder, archive)])
      await run(bin('attw'), ['--profile', 'esm-only', join(folder, archive)])
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
