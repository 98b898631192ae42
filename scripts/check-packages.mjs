import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listPackages } from './packages.mjs'
import { bin, pnpm, run, StepFailed, together } from './step.mjs'

/** Packs every package that will be published and checks what a user would get. */
export async function checkPackages() {
  const published = (await listPackages()).filter(({ manifest }) => manifest.private !== true)
  // Not in the packages' folders, where two runs at once would delete each other's archives.
  const folder = await mkdtemp(join(tmpdir(), 'pawl-packages-'))
  try {
    // By pnpm, because it writes real versions in place of `workspace:`, as publishing does. All at once, because it takes longer
    // to start than to pack.
    const filters = published.map(({ manifest }) => `--filter=${manifest.name}`)
    await pnpm(['--recursive', ...filters, 'pack', '--pack-destination', folder])
    const archives = (await readdir(folder)).toSorted()
    if (archives.length !== published.length)
      throw new StepFailed(`${published.length} packages were packed into ${archives.length} archives`)
    // Both at a time, for a machine with two cores.
    for (const archive of archives.map((name) => join(folder, name)))
      await together([
        run(bin('publint'), ['--strict', archive]),
        run(bin('attw'), ['--profile', 'esm-only', archive]),
      ])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
