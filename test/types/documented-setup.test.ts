import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const TYPESCRIPT = dirname(createRequire(import.meta.url).resolve('typescript/package.json'))
const FASTIFY_DOCS = new URL('../../docs/fastify.md', import.meta.url)

/** A separate project, whose program has only these files, what they import, and the types of browsers. */
async function compile(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = fileURLToPath(new URL(`../dist/project-${randomUUID()}`, import.meta.url))
  await mkdir(folder, { recursive: true })
  onTestFinished(() => rm(folder, { recursive: true }))
  const tsconfig = {
    compilerOptions: {
      target: 'es2022',
      lib: ['es2023', 'dom', 'dom.iterable'],
      module: 'nodenext',
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      skipLibCheck: true,
    },
    files: Object.keys(files),
  }
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const args = [join(TYPESCRIPT, 'bin/tsc'), '--pretty', 'false', '-p', folder]
  return new Promise((resolve) => {
    execFile(process.execPath, args, (_error, stdout, stderr) => resolve(`${stdout}${stderr}`))
  })
}

async function documented(name: string): Promise<string> {
  const text = await readFile(FASTIFY_DOCS, 'utf8')
  const [, code] = new RegExp(`\`\`\`ts\\n(// ${name}\\n[^]*?)\`\`\``).exec(text) ?? []
  if (code === undefined) throw new Error(`docs/fastify.md has no ${name}`)
  return code
}

test('database.ts compiles in a worker, which does not import the adapter', async () => {
  const worker = `
    import { createBackground } from '@pawl/core'
    import type { Pool } from 'pg'
    import { createEngine } from './database.js'
    export const start = (pool: Pool) => createBackground({ engine: createEngine({ pool, pipelines: [] }) }).start()`
  expect(await compile({ 'database.ts': await documented('database.ts'), 'worker.ts': worker })).toBe('')
})

test('database.ts gives request.tx its type where the adapter is imported', async () => {
  const routes = `
    import type {} from '@pawl/fastify'
    import type { FastifyInstance } from 'fastify'
    import type {} from './database.js'
    export function routes(app: FastifyInstance): void {
      app.post('/notes', { idempotency: { atomic: true } }, (request) =>
        request.tx.insertInto('notes').values({ text: 1 }).execute())
    }`
  const output = await compile({ 'database.ts': await documented('database.ts'), 'routes.ts': routes })
  expect(output).toMatch(/^\S+routes\.ts\(7,\d+\): error TS\d+: .*'number' is not assignable to type/s)
  expect(output.split('\n').filter((line) => /^\S/.test(line))).toHaveLength(1)
})

test("the browser's Response accepts a stored response", async () => {
  const answer = `
    import type { StoredResponse } from '@pawl/core'
    export const answer = ({ status, headers, body }: StoredResponse): Response => new Response(body, { status, headers })
    export const text = ({ body }: StoredResponse): string => body.toString('utf8')`
  expect(await compile({ 'answer.ts': answer })).toBe('')
})
