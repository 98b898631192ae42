import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDatabase } from './support/test-database.js'

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

describe('the console, as it is unpacked in an empty folder', () => {
  let application: string
  beforeAll(async () => {
    application = await mkdtemp(join(tmpdir(), 'pawl-console-'))
    const modules = join(application, 'node_modules')
    await mkdir(join(modules, '@pawl'), { recursive: true })
    // Copies: whoever follows a link back into the checkout finds what is not in the package.
    for (const name of ['@pawl/core', '@pawl/console', '@pawl/cli'])
      await cp(unpacked.get(name) ?? '', join(modules, name), { recursive: true })
    for (const name of new Set(await dependenciesOf(modules, ['@pawl/core', '@pawl/console', '@pawl/cli'])))
      await linkTo(await whereIs(name), join(modules, name))
  })
  afterAll(() => rm(application, { recursive: true, force: true }))

  test('has its pages, and nothing that browsers do not get', async () => {
    const root = unpacked.get('@pawl/console') ?? ''
    const files = await readdir(join(root, 'dist', 'web'))
    expect(files).toContain('index.html')
    expect(files.some((name) => name.endsWith('.js'))).toBe(true)
    expect(files.filter((name) => !/\.(?:html|js|css|svg|woff2|txt)$/.test(name))).toEqual([])
  })

  test('is served by pawl console', async () => {
    const database = await TestDatabase.create()
    const bin = join(application, 'node_modules/@pawl/cli/bin/pawl.js')
    const child = spawn(process.execPath, [bin, 'console', '--port', '0', '--schema', database.schema], {
      env: { PATH: process.env['PATH'], DATABASE_URL: database.url },
      cwd: application,
    })
    try {
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const address = String((await lines.next()).value)
      const { headers } = await fetch(address)
      const cookie = headers.getSetCookie()[0]?.split(';')[0] ?? ''
      const page = await fetch(new URL('../', address), { headers: { cookie } })
      const html = await page.text()
      const [, script = ''] = /src="([^"]+\.js)"/.exec(html) ?? []
      expect(script).not.toBe('')
      for (const path of [script, 'api/flow', 'api/session'])
        expect(
          (await fetch(new URL(path, new URL('../', address)), { headers: { cookie } })).status,
          path,
        ).toBe(200)
      const ended = once(child, 'exit')
      child.kill('SIGINT')
      expect(await ended).toEqual([0, null])
    } finally {
      child.kill('SIGKILL')
      await database.drop()
    }
  })
})

/** What others have published, of what these packages need. */
async function dependenciesOf(modules: string, names: readonly string[]): Promise<string[]> {
  const manifests = await Promise.all(
    names.map(
      async (name) =>
        JSON.parse(await readFile(join(modules, name, 'package.json'), 'utf8')) as {
          readonly dependencies?: Record<string, string>
          readonly peerDependencies?: Record<string, string>
        },
    ),
  )
  return manifests
    .flatMap(({ dependencies = {}, peerDependencies = {} }) => [
      ...Object.keys(dependencies),
      ...Object.keys(peerDependencies),
    ])
    .filter((name) => !name.startsWith('@pawl/'))
}

async function linkTo(target: string, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await symlink(target, path)
}

/** Where it is installed for one of our packages. */
async function whereIs(name: string): Promise<string> {
  for (const { source } of published) {
    const path = join(ROOT, source, 'node_modules', name)
    if (existsSync(path)) return realpath(path)
  }
  throw new Error(`${name} is installed for none of the packages.`)
}

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
