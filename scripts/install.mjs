import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { listPackages } from './packages.mjs'
import { pnpm, ROOT, step } from './step.mjs'

const STAMP = join(ROOT, 'node_modules', '.pawl-installed')

/** Installs what the lockfile says, unless it is installed already. */
export async function install() {
  const packages = await listPackages()
  const wanted = await fingerprint(packages)
  if (isComplete(packages) && (await readFile(STAMP, 'utf8').catch(() => '')) === wanted) return
  await step('install', async () => {
    // CI tells pnpm that nobody can answer questions.
    await pnpm(['install', '--frozen-lockfile'], { CI: 'true' })
    await writeFile(STAMP, wanted)
  })
}

/** @param {Awaited<ReturnType<typeof listPackages>>} packages */
async function fingerprint(packages) {
  const files = ['pnpm-lock.yaml', 'pnpm-workspace.yaml'].map((name) => readFile(join(ROOT, name), 'utf8'))
  const parts = [...(await Promise.all(files)), ...packages.flatMap(({ folder, text }) => [folder, text])]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/**
 * The stamp is in the root's node_modules, so it does not notice when somebody removes another one.
 *
 * @param {Awaited<ReturnType<typeof listPackages>>} packages
 */
function isComplete(packages) {
  return packages.every(({ folder, manifest }) => {
    const needsModules = manifest.dependencies !== undefined || manifest.devDependencies !== undefined
    return !needsModules || existsSync(join(ROOT, folder, 'node_modules'))
  })
}
