import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A file that browsers get. */
export interface Asset {
  readonly type: string
  readonly body: Buffer
}

/** The pages as they were built. */
export interface Assets {
  /** By its exact name; null where there is none. Nothing is read from disk, so no path leads anywhere else. */
  file(name: string): Asset | null
  /** The page, for an address this many folders below the console's own. */
  page(depth: number): Asset
}

/** The same from the sources, in tests, as from what is built. */
const FOLDER = fileURLToPath(new URL('../dist/web', import.meta.url))
const PAGE = 'index.html'

/** In the page, it stands for the way from its address back to the console's own, such as `../`. */
const BASE = '__PAWL_BASE__'

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
}

const HTML = 'text/html; charset=utf-8'

const NOT_BUILT =
  '<!doctype html><title>Pawl</title><p>The pages of the console are not built here. Run <code>npm run build</code>.'

/** Reads all files once. */
export function readAssets(folder: string = FOLDER): Assets {
  const names = existsSync(folder) ? readdirSync(folder) : []
  const files = new Map<string, Asset>()
  for (const name of names) {
    const type = TYPES[extname(name)]
    if (type !== undefined) files.set(name, { type, body: readFileSync(join(folder, name)) })
  }
  const page = names.includes(PAGE) ? readFileSync(join(folder, PAGE), 'utf8') : NOT_BUILT
  return {
    file: (name) => files.get(name) ?? null,
    page: (depth) => {
      const base = depth === 0 ? './' : '../'.repeat(depth)
      return { type: HTML, body: Buffer.from(page.replaceAll(BASE, base)) }
    },
  }
}
