import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { listLocked } from './installed.mjs'
import { PERMISSIVE } from './licences.mjs'
import { ROOT } from './step.mjs'

/**
 * The software bill of materials as CycloneDX 1.6: everything that the lockfile names. `scope` is `required` for what users of our
 * packages get, and `excluded` for what only we use. The same lockfile gives the same text: there is no time in it, and no random number.
 *
 * @returns {Promise<string>}
 */
export async function sbom() {
  const { version } = JSON.parse(await readFile(join(ROOT, 'packages', 'core', 'package.json'), 'utf8'))
  const locked = await listLocked()
  const components = locked.map((of) => ({
    type: 'library',
    'bom-ref': refOf(of.id),
    name: of.name,
    version: of.version,
    scope: of.isShipped ? 'required' : 'excluded',
    purl: refOf(of.id),
    ...(of.licence === null ? {} : { licenses: [licenceChoice(of.licence)] }),
    ...hashesOf(of.integrity),
  }))
  const known = new Set(locked.map(({ id }) => id))
  const dependencies = locked.map(({ id, dependsOn }) => ({
    ref: refOf(id),
    dependsOn: dependsOn.filter((each) => known.has(each)).map(refOf),
  }))
  const metadata = { component: { type: 'library', 'bom-ref': 'pawl', name: 'pawl', version } }
  const bom = { bomFormat: 'CycloneDX', specVersion: '1.6', version: 1, metadata, components, dependencies }
  return `${JSON.stringify(bom, null, 2)}\n`
}

/**
 * Names that are not SPDX's have to be said as such.
 *
 * @param {string} licence
 */
function licenceChoice(licence) {
  if (licence.includes(' ')) return { expression: licence }
  return { license: PERMISSIVE.has(licence) ? { id: licence } : { name: licence } }
}

/**
 * A package URL: the @ of a scope is encoded.
 *
 * @param {string} id
 */
function refOf(id) {
  return `pkg:npm/${id.replace(/^@/, '%40')}`
}

/**
 * Of a lockfile, Base64; of CycloneDX, hex.
 *
 * @param {string} integrity
 */
function hashesOf(integrity) {
  const [, base64] = /^sha512-(.+)$/.exec(integrity) ?? []
  if (base64 === undefined) return {}
  return { hashes: [{ alg: 'SHA-512', content: Buffer.from(base64, 'base64').toString('hex') }] }
}
