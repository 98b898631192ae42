import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listPackages } from './packages.mjs'
import { bin, pnpm, run, StepFailed } from './step.mjs'

/** Packs every package that will be published and checks what a user would get. */
export async function checkPackages() {
  const published = (await listPackages()).filter(({ manifest }) => manifest.private !== true)
  // Not in the packages' folders, where two runs at once would delete each other's archives.
  const folder = await mkdtemp(join(tmpdir(), 'pawl-packages-'))
  try {
    // pnpm's, because it writes real versions in place of `workspace:`, as publishing does. All at once: to start it takes longer
    // than to pack.
    const filters = published.map(({ manifest }) => `--filter=${manifest.name}`)
    await pnpm(['--recursive', ...filters, 'pack', '--pack-destination', folder])
    const archives = (await readdir(folder)).toSorted()
    if (archives.length !== published.length)
      throw new StepFailed(`${published.length} packages were packed into ${archives.length} archives`)
    for (const archive of archives) {
      await run(bin('publint'), ['--strict', join(folder, archive)])
      await run(bin('attw'), ['--profile', 'esm-only', join(folder, archive)])
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
