import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { build } from 'esbuild'
import { ROOT, StepFailed } from './step.mjs'

const WEB = join(ROOT, 'packages/console/web')
const OUT = join(ROOT, 'packages/console/dist/web')
const MODULES = join(ROOT, 'packages/console/node_modules')

/** What is bundled, or lies beside the bundle. Their licences ask that their texts go with them. */
const BUNDLED = ['preact', 'uplot', '@fontsource-variable/inter']
const LICENCES = 'THIRD-PARTY-LICENCES.txt'

/**
 * Bundles the pages of `@pawl/console` into `dist/web`: `index.html`, and files that have a hash of their content in their names. In
 * `web/index.html`, `__PAWL_SCRIPT__` and `__PAWL_STYLE__` stand for those names; `__PAWL_BASE__` stays, and the server replaces it in
 * each answer.
 */
export async function buildConsole() {
  const page = join(WEB, 'index.html')
  if (!existsSync(page)) return
  const { outputFiles, metafile } = await build({
    entryPoints: [join(WEB, 'main.tsx')],
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    loader: { '.woff2': 'file', '.svg': 'file' },
    entryNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    outdir: OUT,
    metafile: true,
    write: false,
    logLevel: 'silent',
    absWorkingDir: ROOT,
  }).catch((/** @type {Error} */ { message }) => {
    throw new StepFailed(message)
  })
  const names = outputFiles.map(({ path }) => basename(path))
  const nameOf = (/** @type {string} */ ending) => {
    const found = Object.entries(metafile.outputs).find(
      ([path, { entryPoint, cssBundle }]) =>
        path.endsWith(ending) && (entryPoint !== undefined || !cssBundle),
    )
    if (found === undefined) throw new StepFailed(`packages/console/web builds no ${ending} file.`)
    return basename(found[0])
  }
  const html = (await readFile(page, 'utf8'))
    .replaceAll('__PAWL_SCRIPT__', nameOf('.js'))
    .replaceAll('__PAWL_STYLE__', nameOf('.css'))
  await mkdir(OUT, { recursive: true })
  // The page comes last, and what it no longer names is deleted after it: a server that starts meanwhile finds a whole set.
  for (const { path, contents } of outputFiles) await writeFile(path, contents)
  await writeFile(join(OUT, LICENCES), await licenceTexts())
  await writeFile(join(OUT, 'index.html'), html)
  const current = new Set(['index.html', LICENCES, ...names])
  const outdated = (await readdir(OUT)).filter((name) => !current.has(name))
  await Promise.all(outdated.map((name) => rm(join(OUT, name), { recursive: true })))
}

async function licenceTexts() {
  const texts = BUNDLED.map(async (name) => {
    const text = await readFile(join(MODULES, name, 'LICENSE'), 'utf8')
    return `${name}\n\n${text.trim()}\n`
  })
  return (await Promise.all(texts)).join(`\n${'-'.repeat(80)}\n\n`)
}
