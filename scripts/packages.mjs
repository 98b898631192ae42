import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ROOT } from './step.mjs'

/**
 * @typedef {{
 *   name: string,
 *   private?: boolean,
 *   dependencies?: Record<string, string>,
 *   devDependencies?: Record<string, string>,
 * }} Manifest
 */

/**
 * Returns all packages of the workspace, including the root, with their folders relative to the root.
 *
 * @returns {Promise<{ folder: string, text: string, manifest: Manifest }[]>}
 */
export async function listPackages() {
  const patterns = await readWorkspacePatterns()
  const folders = await Promise.all(patterns.map(expand))
  const found = ['.', ...folders.flat()]
    .filter((folder) => existsSync(join(ROOT, folder, 'package.json')))
    .toSorted()
  return Promise.all(
    found.map(async (folder) => {
      const text = await readFile(join(ROOT, folder, 'package.json'), 'utf8')
      return { folder, text, manifest: JSON.parse(text) }
    }),
  )
}

/** The list under `packages:`, read by hand because this runs before any YAML parser is installed. */
async function readWorkspacePatterns() {
  const yaml = await readFile(join(ROOT, 'pnpm-workspace.yaml'), 'utf8')
  const [, list = ''] = /^packages:\n((?: +- .+\n)+)/m.exec(yaml) ?? []
  return Array.from(list.matchAll(/- (.+)\n/g), ([, pattern = '']) => pattern)
}

/** @param {string} pattern a folder, or `folder/*` for all folders in it */
async function expand(pattern) {
  if (!pattern.endsWith('/*')) return [pattern]
  const parent = pattern.slice(0, -2)
  if (!existsSync(join(ROOT, parent))) return []
  return (await readdir(join(ROOT, parent))).map((name) => join(parent, name))
}
