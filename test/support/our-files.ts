import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const NOT_OURS = new Set(['node_modules', 'dist', 'coverage', '.cache', '.git'])

/** The files of the project, by their paths from its root. */
export async function ourFiles(folder = ''): Promise<string[]> {
  const entries = await readdir(join(ROOT, folder), { withFileTypes: true })
  const ours = entries.filter(({ name }) => !NOT_OURS.has(name))
  const found = ours.map(async (entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? ourFiles(path) : [path]
  })
  return (await Promise.all(found)).flat()
}

/** `scripts/copy-docs.mjs` puts the pages into a package when it is packed. */
export function isCopiedPage(name: string): boolean {
  return /^packages\/[^/]+\/docs\//.test(name)
}
