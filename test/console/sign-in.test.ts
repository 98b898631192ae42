import { once } from 'node:events'
import { type IncomingMessage, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { startConsole, type StartConsoleOptions } from '@pawl/console'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { MAX_SESSIONS, SESSION_MS } from '../../packages/console/src/limits.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
})
afterAll(() => database.drop())

const TOKEN = 'a-token-that-nobody-guesses'

async function running(options: Partial<StartConsoleOptions> = {}) {
  const console = await startConsole({
    url: database.url,
    schema: database.schema,
    port: 0,
    actor: 'anna',
    ...options,
  })
  onTestFinished(() => console.close())
  return console
}

interface Answered {
  readonly status: number
  readonly cookie: string
  readonly body: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** As it is sent: `fetch` sets the Host header by itself. */
async function ask(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
  const sent = httpRequest(url, { headers, agent: false }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const [set = ''] = response.headers['set-cookie'] ?? []
  return {
    status: response.statusCode ?? 0,
    cookie: set.split(';')[0] ?? '',
    headers: response.headers,
    body: await text(response),
  }
}

describe('an address that signs in', () => {
  test('works once, and is exchanged for a cookie that no script and no other site gets', async () => {
    const addresses: string[] = []
    const console = await running({ onAddress: (address) => addresses.push(address) })
    expect(addresses).toEqual([console.address])
    const entered = await ask(addresses[0] ?? '')
    expect(entered).toMatchObject({
      status: 200,
      headers: {
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'set-cookie': [
          expect.stringMatching(/^pawl-console-\d+=[\w-]{43}; Path=\/[\w-]{22}; HttpOnly; SameSite=Strict$/),
        ],
      },
    })
    expect(entered.body).not.toContain('<script')
    expect((await ask(addresses[0] ?? '')).status).toBe(401)
    expect(addresses).toHaveLength(2)
    expect(console.address).toBe(addresses[1])
    expect((await ask(`${console.origin}/api/session`, { cookie: entered.cookie })).status).toBe(200)
  })

  test('of twenty browsers at once, one gets in', async () => {
    const { address } = await running()
    const entered = await Promise.all(Array.from({ length: 20 }, () => ask(address)))
    expect(entered.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(entered.filter(({ cookie }) => cookie !== '')).toHaveLength(1)
  })

  test.each(['x', 'A'.repeat(43), '', 'x'.repeat(600)])('with the token %j does not', async (token) => {
    const { origin } = await running()
    const { status, cookie } = await ask(`${origin}/enter/${token}`)
    expect([400, 401, 404, 414]).toContain(status)
    expect(cookie).toBe('')
  })

  test('with a token of its own works again and again', async () => {
    const { address, origin } = await running({ token: TOKEN })
    expect(address).toBe(`${origin}/enter/${TOKEN}`)
    for (let n = 0; n < 3; n++) expect((await ask(address)).status).toBe(200)
    expect((await ask(`${address}x`)).status).toBe(401)
  })

  test('does not under a name that another site has made lead here', async () => {
    const { address, origin } = await running({ token: TOKEN })
    const { cookie } = await ask(address)
    for (const host of [
      'evil.example',
      '127.0.0.1.evil.example',
      'localhost.evil.example:7295',
      '10.0.0.1',
    ]) {
      expect((await ask(address, { host })).status, host).toBe(401)
      expect((await ask(`${origin}/api/session`, { host, cookie })).status, host).toBe(401)
      expect((await ask(`${origin}/`, { host, cookie, accept: 'text/html' })).status, host).toBe(401)
    }
    for (const host of ['localhost:1', '127.0.0.1', '[::1]:7295', 'LOCALHOST'])
      expect((await ask(`${origin}/api/session`, { host, cookie })).status, host).toBe(200)
  })
})

describe('a session', () => {
  test('ends after a working day', async () => {
    const { address, origin } = await running({ token: TOKEN })
    const { cookie } = await ask(address)
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now')
    onTestFinished(() => clock.mockRestore())
    clock.mockReturnValue(now + SESSION_MS - 60_000)
    expect((await ask(`${origin}/api/session`, { cookie })).status).toBe(200)
    clock.mockReturnValue(now + SESSION_MS + 60_000)
    expect((await ask(`${origin}/api/session`, { cookie })).status).toBe(401)
  })

  test('is forgotten where there are too many, oldest first', async () => {
    const { address, origin } = await running({ token: TOKEN })
    const first = await ask(address)
    const second = await ask(address)
    for (let n = 0; n < MAX_SESSIONS - 1; n++) await ask(address)
    expect((await ask(`${origin}/api/session`, { cookie: first.cookie })).status).toBe(401)
    expect((await ask(`${origin}/api/session`, { cookie: second.cookie })).status).toBe(200)
  })

  test('of one console does not count in another', async () => {
    const [one, other] = [await running({ token: TOKEN }), await running({ token: TOKEN })]
    const { cookie } = await ask(one.address)
    expect((await ask(`${other.origin}/api/session`, { cookie })).status).toBe(401)
  })

  test('is asked for with a page that says how, and of the API with an error', async () => {
    const { origin } = await running()
    const page = await ask(`${origin}/`, { accept: 'text/html' })
    expect(page).toMatchObject({ status: 401, body: expect.stringContaining('pawl console') })
    expect(page.headers['content-security-policy']).toContain("default-src 'none'")
    const api = await ask(`${origin}/api/flow`)
    expect([api.status, JSON.parse(api.body)]).toMatchObject([401, { error: { code: 'unauthenticated' } }])
  })
})

test.each(['/%E0%A4%A', '/api/%', '/enter/%ff', '/api/requests/%ff/retry'])(
  'an address such as %s is refused, with the headers of every answer',
  async (path) => {
    const { origin } = await running()
    const { status, headers } = await ask(origin + path)
    expect([400, 401, 404]).toContain(status)
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  },
)

test('other methods are refused, with the headers of every answer', async () => {
  const { origin } = await running()
  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
    const sent = httpRequest(`${origin}/api/session`, { method, agent: false }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    response.resume()
    expect([401, 404], method).toContain(response.statusCode)
    expect(response.headers['cache-control'], method).toBe('no-store')
    expect(response.headers['access-control-allow-origin'], method).toBeUndefined()
  }
})

const local = (url: string) => url.replace('0.0.0.0', '127.0.0.1')

describe('a console that others can reach', () => {
  test('does not start without a token', async () => {
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.evil.example', ''])
      await expect(running({ host }), host).rejects.toMatchObject({
        code: 'PAWL_INVALID_OPTION',
        message: expect.stringMatching(/which others can reach\. Set token as well/),
      })
  })

  test.each(['short', 'has a space in it', 'slash/slash/slash', 'x'.repeat(513), 7])(
    'does not start with the token %j',
    async (token) => {
      await expect(running({ host: '0.0.0.0', token: token as string })).rejects.toThrow(
        /token has to have 16 to 512/,
      )
    },
  )

  test('with one, it answers under any name, and nobody without it', async () => {
    const { address, origin } = await running({ host: '0.0.0.0', token: TOKEN })
    expect((await ask(`${local(origin)}/api/session`, { host: 'ops.example' })).status).toBe(401)
    const { cookie } = await ask(local(address), { host: 'ops.example' })
    const { status } = await ask(`${local(origin)}/api/session`, { host: 'ops.example', cookie })
    expect(status).toBe(200)
  })
})

test.each(['127.0.0.1', '::1', 'localhost'])('it listens on %s, and nowhere else', async (host) => {
  const { address, origin } = await running({ host })
  expect((await ask(address)).status).toBe(200)
  const { port } = new URL(origin)
  if (host !== '127.0.0.1') return
  // Another address of this machine's own: 127.0.0.0/8 is all loopback, and only one of it is listened on.
  const socket = connect(Number(port), '127.0.0.2')
  await expect(once(socket, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test.each([
  [{ url: 'mysql://x' }, /url is/],
  [{ url: undefined as never }, /url is/],
  [{ readUrl: 'x' }, /readUrl is/],
  [{ port: 65_536 }, /port is 65536/],
  [{ port: 1.5 }, /port is 1\.5/],
  [{ pollMs: 1 }, /pollMs is 1/],
  [{ schema: 'a"b' }, /schema is/],
  [{ hots: '0.0.0.0' } as never, /unknown option 'hots'/],
])('%o is refused, and leaves nothing open', async (wrong, says) => {
  await expect(running(wrong)).rejects.toThrow(says)
})
