/**
 * Runs as `prepack` in a package's folder: copies the pages of `docs/` into the package, where its README links to them. There
 * is no web address that it could link to.
 */
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ROOT } from './step.mjs'

const LINK_OUT_OF_DOCS = /\[([^\]]+)\]\(\.\.\/[^)]*\)/g
const PICTURE = /!\[([^\]]*)\]\(images\/[^)]*\)/g

const target = join(process.cwd(), 'docs')
await mkdir(target, { recursive: true })
const pages = (await readdir(join(ROOT, 'docs'), { withFileTypes: true })).filter((entry) => entry.isFile())
for (const { name } of pages) {
  const text = await readFile(join(ROOT, 'docs', name), 'utf8')
  // A package has neither the examples nor other packages, and no pictures, which are larger than all else: what leads there becomes
  // plain text.
  const copy = name.endsWith('.md')
    ? text.replaceAll(PICTURE, '_$1_').replaceAll(LINK_OUT_OF_DOCS, '$1')
    : text
  // In one step, since another run may be packing the same folder.
  const draft = join(target, `.${name}.${process.pid}`)
  await writeFile(draft, copy)
  await rename(draft, join(target, name))
}
