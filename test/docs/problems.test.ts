import { readFile } from 'node:fs/promises'
import { STATUS_CODES } from 'node:http'
import fastifyPawl, { problems } from '@pawl/fastify'
import Fastify from 'fastify'
import { expect, test } from 'vitest'
import { respond } from '@pawl/core'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const PAGE = new URL('../../docs/http.md', import.meta.url)

interface Section {
  readonly code: string
  readonly text: string
}

/** The sections under `## Problems`. */
async function sections(): Promise<Section[]> {
  const page = await readFile(PAGE, 'utf8')
  const [, last = ''] = page.split(/^## Problems$/m)
  const [, ...parts] = last.split(/^### /m)
  return parts.map((part) => {
    const [code = '', ...lines] = part.split('\n')
    return { code, text: lines.join('\n') }
  })
}

/** As GitHub makes the anchor of a heading: lower case, no punctuation but `-` and `_`, dashes for spaces. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')
}

test('docs/http.md has a heading for every problem code, and for no other', async () => {
  expect((await sections()).map(({ code }) => code)).toEqual(Object.keys(problems))
})

test('each says its status, and what client and operator should do', async () => {
  for (const { code, text } of await sections()) {
    const { status } = problems[code as keyof typeof problems]
    expect(text, code).toMatch(new RegExp(`^\\s*\\*\\*${status}\\*\\* in `))
    expect(text, code).toMatch(/^- Client: \S/m)
    expect(text, code).toMatch(/^- Operator: \S/m)
  }
})

test('each says that the same request may succeed later exactly where it may', async () => {
  for (const { code, text } of await sections()) {
    const { retry } = problems[code as keyof typeof problems]
    const promised = /with `Retry-After`/.test(text)
    expect(promised, code).toBe(retry)
  }
})

test('every problem that the page shows has the words that are sent', async () => {
  const page = await readFile(PAGE, 'utf8')
  const bodies = [...page.matchAll(/^\{"type":.*\}$/gm)].map(
    ([body]) => JSON.parse(body) as { code: keyof typeof problems },
  )
  expect(bodies.map(({ code }) => code)).toEqual([
    'request_in_progress',
    'idempotency_key_reused',
    'idempotency_key_missing',
  ])
  for (const body of bodies) {
    const { status, detail } = problems[body.code]
    expect(body).toMatchObject({ type: 'about:blank', title: STATUS_CODES[status], status, detail })
  }
  // The one in the form of Stripe.
  const [, stripe = ''] = /^```json\n(.*?)^```$/ms.exec(page) ?? []
  const { error } = JSON.parse(stripe) as { error: { code: keyof typeof problems; message: string } }
  expect(error.message).toBe(problems[error.code].detail)
})

test('the type of a problem leads to its heading', async () => {
  const database = await TestDatabase.create()
  const pipelines = [pipeline<null>({ name: 'any', version: 1 }).finish(() => respond(200))]
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines })
  const app = Fastify()
  await app.register(fastifyPawl, { engine, scope: () => 'ann', problemBaseUrl: 'https://example.com/http' })
  app.post('/', { idempotency: true }, () => null)
  const { type } = (await app.inject({ method: 'POST', url: '/' })).json<{ type: string }>()
  const [page, anchor] = type.split('#')
  expect(page).toBe('https://example.com/http')
  expect(anchor).toBe('idempotency_key_missing')
  await app.close()
  await database.drop()

  const anchors = (await sections()).map(({ code }) => anchorOf(code))
  for (const code of Object.keys(problems)) expect(anchors).toContain(code)
})
