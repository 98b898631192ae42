import { afterAll, describe, expect, test } from 'vitest'
import { askForRide, newKey } from '../support/rides-client.js'
import { Rides, RidesProcess } from '../support/rides-processes.js'
import { onlyDeep } from '../support/amounts.js'

const TOKEN = 'a-token-of-the-environment'

const rides = await Rides.start()
afterAll(() => rides.end())

/** Signs in as a browser does. Returns the cookie. */
async function enter(address: string): Promise<string> {
  const response = await fetch(address)
  expect(response.status).toBe(200)
  return (response.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
}

/** What the process has logged, without the envelope. */
function said({ out }: RidesProcess): string[] {
  return out.map((line) => (JSON.parse(line) as { msg: string }).msg)
}

function matchOf(api: RidesProcess, pattern: RegExp): string {
  return (
    said(api)
      .find((line) => pattern.test(line))
      ?.match(pattern)?.[1] ?? ''
  )
}

describe('with CONSOLE_PORT', () => {
  test('and CONSOLE_TOKEN, the console shows the rides to whoever knows the token, and the log does not have it', async () => {
    const api = await rides.startApi({ env: { CONSOLE_PORT: '0', CONSOLE_TOKEN: TOKEN } })
    const origin = matchOf(api, /^the console is at (http:\/\/127\.0\.0\.1:\d+\/[\w-]+)$/)
    expect(api.out.join()).not.toContain(TOKEN)
    expect((await fetch(`${origin}/api/requests`)).status).toBe(401)
    const key = newKey()
    await askForRide(api.url, key)
    const cookie = await enter(`${origin}/enter/${TOKEN}`)
    const answer = await fetch(`${origin}/api/requests?status=finished`, { headers: { cookie } })
    expect(await answer.json()).toMatchObject({ rows: [{ key, pipeline: 'create-ride' }] })
    // Any number of times, unlike the addresses that the console makes, and for whoever knows the port and the token alone.
    await enter(new URL(`/enter/${TOKEN}`, origin).href)
    api.signal('SIGTERM')
    expect(await api.ended).toBe('0')
  })

  onlyDeep(() => {
    test('alone, each address that is logged signs in one browser', async () => {
      const api = await rides.startApi({ env: { CONSOLE_PORT: '0' } })
      const address = matchOf(api, /^the console signs in one browser at (\S+)$/)
      await enter(address)
      expect((await fetch(address)).status).toBe(401)
      await api.kill()
    })
  })
})

test.each([
  ['without it, nothing of the console', {}, false],
  ['with it, the console', { CONSOLE_PORT: '0' }, true],
])('%s is loaded', async (_, env, isLoaded) => {
  // Node then says of each module that it loads.
  const api = await rides.startApi({ env: { ...env, NODE_DEBUG: 'esm' } })
  await askForRide(api.url, newKey())
  const loaded = api.errors.join('\n')
  expect(loaded).toContain('/fastify-adapter/dist/index.js')
  expect(loaded.includes('/console/dist/index.js')).toBe(isLoaded)
  await api.kill()
})

test('a token that is easily guessed, or has no console, ends the server with 1', async () => {
  const settings = { DATABASE_URL: rides.databaseUrl, STRIPE_API_BASE: rides.standIn.url }
  const wrong = new RidesProcess('server.js', { ...settings, CONSOLE_TOKEN: 'short' })
  expect(await wrong.ended).toBe('1')
  expect(wrong.errors.toSorted()).toEqual([
    'CONSOLE_TOKEN is not usable; it takes 16 to 512 letters, digits and - . _ ~.',
    'CONSOLE_TOKEN is set, and CONSOLE_PORT is not; it takes a port, or 0 for any.',
  ])
})
