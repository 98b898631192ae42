import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('..', import.meta.url))

const readJson = async <T>(path: string): Promise<T> =>
  JSON.parse(await readFile(join(ROOT, path), 'utf8')) as T

interface Manifest {
  readonly name: string
  readonly private?: boolean
}

const sources = (await readdir(join(ROOT, 'packages'))).map((name) => join('packages', name))
const published = (
  await Promise.all(
    sources.map(async (source) => ({
      source,
      manifest: await readJson<Manifest>(join(source, 'package.json')),
    })),
  )
).filter(({ manifest }) => manifest.private !== true)

/** Each package as a user unpacks it, by its name. */
const unpacked = new Map<string, string>()
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-unpacked-'))
  // All in one call, because each would cost a second or more. By npm, which packs the same as pnpm, except for versions.
  const paths = published.map(({ source }) => `./${source}`)
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder, ...paths], {
    cwd: ROOT,
  })
  for (const { name, filename } of JSON.parse(stdout) as { name: string; filename: string }[]) {
    const target = join(folder, name)
    await mkdir(target, { recursive: true })
    await run('tar', ['-xzf', join(folder, filename), '-C', target])
    unpacked.set(name, join(target, 'package'))
  }
}, 120_000)

afterAll(() => rm(folder, { recursive: true, force: true }))

/** The pages of a package, by their paths in it. */
async function pagesOf(name: string): Promise<Map<string, string>> {
  const root = unpacked.get(name) ?? ''
  const paths = (await readdir(root, { recursive: true })).filter((path) => path.endsWith('.md'))
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await readFile(join(root, path), 'utf8')] as const)),
  )
}

const LINK = /\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g

test.each(published.map(({ manifest }) => manifest.name))(
  'every relative link in the pages of %s leads to a file of the package',
  async (name) => {
    const root = unpacked.get(name) ?? ''
    const pages = await pagesOf(name)
    expect([...pages.keys()]).toContain('README.md')
    const broken = [...pages].flatMap(([page, text]) =>
      Array.from(text.matchAll(LINK), ([, target = '']) => ({ page, target }))
        .filter(({ target }) => {
          const path = resolve(root, dirname(page), target)
          return relative(root, path).startsWith('..') || !existsSync(path)
        })
        .map((link) => `${link.page}: ${link.target}`),
    )
    expect(broken).toEqual([])
  },
)

test('the packages that are documented in docs/ contain its pages', async () => {
  const pages = (await readdir(join(ROOT, 'docs'))).filter((name) => name.endsWith('.md'))
  expect(pages.length).toBeGreaterThan(5)
  for (const name of [
    '@pawl/core',
    '@pawl/fastify',
    '@pawl/crash-kit',
    '@pawl/graphile-worker',
    '@pawl/redis',
    '@pawl/opentelemetry',
    '@pawl/console',
  ]) {
    const found = [...(await pagesOf(name)).keys()].map((path) => path.replace('docs/', ''))
    expect(found, name).toEqual(expect.arrayContaining(pages))
  }
})

test('no page links to an address that is not ours', async () => {
  for (const { manifest } of published) {
    for (const [page, text] of await pagesOf(manifest.name))
      expect(text, `${manifest.name}/${page}`).not.toMatch(/pawl\.(?:dev|io|sh)|github\.com\/pawl/)
  }
})

test('no manifest names a repository or a homepage: there is none yet', () => {
  for (const { manifest } of published) {
    for (const member of ['repository', 'homepage', 'bugs'])
      expect(manifest, manifest.name).not.toHaveProperty(member)
  }
})
