import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { askForRide, expectBalancedBooks, newKey } from '../support/rides-client.js'
import { createDatabase, dropDatabase, Rides, RidesProcess } from '../support/rides-processes.js'
import { onlyDeep } from '../support/amounts.js'

const rides = await Rides.start()
afterAll(() => rides.end())

onlyDeep(() => {
  test('two servers that start at once on an empty database both come up, and serve one key between them', async () => {
    const [one, other] = await Promise.all([rides.startApi(), rides.startApi()])
    const key = newKey()
    const [first, second] = [await askForRide(one.url, key), await askForRide(other.url, key)]
    expect([first.status, second.status]).toEqual([201, 201])
    expect(second.body).toEqual(first.body)
    await expectBalancedBooks(rides)
  })
})

onlyDeep(() => {
  test('a server that listens says so in one line of JSON with its address', async () => {
    const api = await rides.startApi()
    const lines = api.out.map((line) => JSON.parse(line) as { msg: string })
    expect(lines.map(({ msg }) => msg)).toEqual([
      expect.stringMatching(/^Server listening at http:\/\/127\.0\.0\.1:\d+$/),
    ])
    expect((await fetch(`${api.url}/healthz`)).status).toBe(200)
  })
})

test('on SIGTERM a running request is still answered, and the server ends with 0', async () => {
  const api = await rides.startApi()
  await rides.provoke('slow')
  const charges = (await rides.ledger()).length
  const running = askForRide(api.url, newKey())
  await expect.poll(async () => (await rides.ledger()).length).toBe(charges + 1)
  api.signal('SIGTERM')
  expect((await running).status).toBe(201)
  expect(await api.ended).toBe('0')
  await expectBalancedBooks(rides)
})

onlyDeep(() => {
  test.each(['server.js', 'worker.js'])(
    '%s reports everything that is wrong with its environment, and ends with 1',
    async (script) => {
      const values = {
        PORT: '70000',
        STRIPE_TIMEOUT_MS: '-1',
        LEASE_MS: 'soon',
        POOL_MAX: '0',
        BACKGROUND: 'yes',
        LAYOUT: 'hashed',
        AFTER_EXPIRY: 'charge',
        RETENTION_MS: '1',
        WIPE: 'clean',
        PROTECT_KEY: 'k1:secret',
        LIMIT_NEW_PER_MINUTE: '0',
        LIMIT_UNFINISHED: 'few',
        WAITERS_PER_SCOPE: '-1',
      }
      const wrong = new RidesProcess(script, { ...values, STRIPE_API_BASE: 'nowhere' })
      expect(await wrong.ended).toBe('1')
      expect(wrong.out).toEqual([])
      expect(wrong.errors.toSorted()).toEqual([
        "AFTER_EXPIRY is 'charge'; it takes refuse or run.",
        expect.stringMatching(/^BACKGROUND is 'yes'; /),
        expect.stringMatching(/^DATABASE_URL is not set; /),
        "LAYOUT is 'hashed'; it takes plain or partitioned or citus.",
        expect.stringMatching(/^LEASE_MS is 'soon'; /),
        expect.stringMatching(/^LIMIT_NEW_PER_MINUTE is '0'; /),
        expect.stringMatching(/^LIMIT_UNFINISHED is 'few'; /),
        // The worker charges nobody.
        ...(script === 'server.js'
          ? [expect.stringMatching(/^Neither STRIPE_API_KEY .* nor STRIPE_API_BASE .* is set\.$/)]
          : []),
        expect.stringMatching(/^POOL_MAX is '0'; /),
        expect.stringMatching(/^PORT is '70000'; /),
        'PROTECT_KEY is not usable; it takes 64 hexadecimal digits, or a list such as new:…,old:… of them.',
        expect.stringMatching(/^RETENTION_MS is '1'; /),
        expect.stringMatching(/^STRIPE_API_BASE is 'nowhere'; /),
        expect.stringMatching(/^STRIPE_TIMEOUT_MS is '-1'; /),
        expect.stringMatching(/^WAITERS_PER_SCOPE is '-1'; /),
        expect.stringMatching(/^WIPE is 'clean'; /),
      ])
    },
  )
})

onlyDeep(() => {
  test('a port that is taken ends the server with 1', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const database = await createDatabase()
    const api = new RidesProcess('server.js', {
      DATABASE_URL: database,
      STRIPE_API_BASE: rides.standIn.url,
      PORT: String(port),
    })
    expect(await api.ended).toBe('1')
    expect([...api.out, ...api.errors].join('\n')).toContain('EADDRINUSE')
    taken.close()
    await dropDatabase(database)
  })
})
