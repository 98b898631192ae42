import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'vitest/config'
import { patchSource } from './patch-source.js'
import { patchesOf } from './variants.js'

const CORE = fileURLToPath(new URL('../../packages/core/src/', import.meta.url))
const KIT = fileURLToPath(new URL('../../packages/crash-kit/src/', import.meta.url))

/**
 * Lets tests import a broken engine beside the right one: `@pawl/core?broken=<variant>` is a module graph of its own, with
 * all sources of core and of the crash kit, which thus runs on the broken core. Everything else is shared.
 */
export function brokenEngines(): Plugin {
  return {
    name: 'pawl:broken-engines',
    enforce: 'pre',
    async resolveId(source, importer) {
      const asked = readId(source)
      const from = readId(importer ?? '')
      const variant = asked.variant ?? from.variant
      if (variant === null) return null
      const by = importer === undefined ? undefined : from.path
      const resolved = await this.resolve(asked.path, by, { skipSelf: true })
      if (resolved === null || !(resolved.id.startsWith(CORE) || resolved.id.startsWith(KIT))) return resolved
      return { ...resolved, id: `${resolved.id}?broken=${variant}` }
    },
    async load(id) {
      const { path, variant } = readId(id)
      if (variant === null) return null
      this.addWatchFile(path)
      const source = await readFile(path, 'utf8')
      return path.startsWith(CORE) ? patchSource(patchesOf(variant), path.slice(CORE.length), source) : source
    },
  }
}

/** Import queries other than ours stay as they are. */
function readId(id: string): { readonly path: string; readonly variant: string | null } {
  const [path = '', query = ''] = id.split('?', 2)
  const variant = new URLSearchParams(query).get('broken')
  return variant === null ? { path: id, variant } : { path, variant }
}
