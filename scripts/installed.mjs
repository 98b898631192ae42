import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { listPackages } from './packages.mjs'
import { readLockfile } from './lockfile.mjs'
import { ROOT } from './step.mjs'

/** @typedef {import('./lockfile.mjs').LockedPackage & { licence: string | null }} Installed */

/**
 * Everything that the lockfile names, with the licence that its manifest declares. What is for other machines is not installed here,
 * and its licence is null.
 *
 * @param {string} root
 * @returns {Promise<(Installed & { isInstalled: boolean })[]>}
 */
export async function listLocked(root = ROOT) {
  const published = (await listPackages())
    .filter(({ manifest }) => manifest.private !== true)
    .map(({ folder }) => folder.replaceAll('\\', '/'))
  const locked = readLockfile(await readFile(join(root, 'pnpm-lock.yaml'), 'utf8'), published)
  const licences = await readLicences(join(root, 'node_modules', '.pnpm'))
  return locked.map((of) => ({
    ...of,
    licence: licences.get(of.id) ?? null,
    isInstalled: licences.has(of.id),
  }))
}

/**
 * pnpm has a folder for each package and its peers, with the package itself in its `node_modules`.
 *
 * @param {string} store
 */
async function readLicences(store) {
  /** @type {Map<string, string | null>} */
  const licences = new Map()
  for (const folder of await readdir(store)) {
    const [, spelled = ''] = /^(@?[^@]+)@/.exec(folder) ?? []
    const file = join(store, folder, 'node_modules', spelled.replace('+', '/'), 'package.json')
    const text = await readFile(file, 'utf8').catch(() => null)
    if (text === null) continue
    const { name, version, license, licenses } = JSON.parse(text)
    licences.set(`${name}@${version}`, licenceOf(license ?? licenses))
  }
  return licences
}

/**
 * Old manifests have an object, or a list of them.
 *
 * @param {unknown} declared
 * @returns {string | null}
 */
function licenceOf(declared) {
  if (typeof declared === 'string') return declared
  if (Array.isArray(declared)) return declared.map(licenceOf).join(' AND ') || null
  if (typeof declared === 'object' && declared !== null && 'type' in declared) return String(declared.type)
  return null
}
