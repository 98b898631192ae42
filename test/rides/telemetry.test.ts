import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { askForRide, newKey } from '../support/rides-client.js'
import { Rides, type RidesProcess, until } from '../support/rides-processes.js'
import { onlyDeep } from '../support/amounts.js'

const NOTE_IMPORTS = fileURLToPath(new URL('../fixtures/note-imports.mjs', import.meta.url))

let rides: Rides

beforeAll(async () => {
  rides = await Rides.start()
})
afterAll(() => rides.end())

const metricsUrl = (api: RidesProcess): string =>
  /metrics are at (http:\/\/127\.0\.0\.1:\d+\/metrics)/.exec(api.out.join('\n'))?.[1] ?? 'nowhere'

const counted = (outcome: string) =>
  new RegExp(`^pawl_requests_total\\{.*pawl_outcome="${outcome}".*\\} 1$`, 'm')

test('with METRICS_PORT, Prometheus gets what requests and the database have come to', async () => {
  const api = await rides.startApi({ env: { METRICS_PORT: '0' } })
  const key = newKey()
  for (let times = 0; times < 2; times++) expect((await askForRide(api.url, key)).status).toBe(201)
  const text = await (await fetch(metricsUrl(api))).text()
  expect(text).toMatch(counted('completed'))
  expect(text).toMatch(counted('replayed'))
  expect(text).toMatch(/^pawl_keys_finished(?:\{.*\})? \d+$/m)
  expect(text).not.toContain(key)
  const other = new URL('/', metricsUrl(api))
  expect((await fetch(other)).status).toBe(404)
  expect((await fetch(metricsUrl(api), { method: 'POST' })).status).toBe(404)
  api.signal('SIGTERM')
  expect(await api.ended).toBe('0')
})

/** As much of an OpenTelemetry Collector as it takes to see what is sent to one. */
async function collector() {
  const got: { readonly path: string; readonly body: string }[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => {
      got.push({ path: request.url ?? '', body })
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

describe('with OTEL_EXPORTER_OTLP_ENDPOINT', () => {
  test('traces are sent there, the last ones when the process ends', async () => {
    const { got, url } = await collector()
    const api = await rides.startApi({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: url } })
    expect((await askForRide(api.url, newKey())).status).toBe(201)
    const [row] = await rides.rows<{ traceparent: string }>(
      'SELECT traceparent FROM pawl.idempotency_keys ORDER BY created_at DESC LIMIT 1',
    )
    api.signal('SIGTERM')
    expect(await api.ended).toBe('0')
    const sent = got.map(({ body }) => body).join('\n')
    expect(new Set(got.map(({ path }) => path))).toEqual(new Set(['/v1/traces']))
    for (const name of ['execute create-ride', 'phase ride_created', 'call charge_created'])
      expect(sent).toContain(name)
    expect(sent).toContain(row?.traceparent.split('-')[1])
  })

  onlyDeep(() => {
    test('a collector that is away costs nobody an answer, nor the process its end', async () => {
      const api = await rides.startApi({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' } })
      expect((await askForRide(api.url, newKey())).status).toBe(201)
      api.signal('SIGTERM')
      expect(await api.ended).toBe('0')
    })
  })
})

test.each([
  ['unset, nothing of OpenTelemetry is loaded', {}, false],
  ['set, it is', { METRICS_PORT: '0' }, true],
])('%s', async (_how, env, isLoaded) => {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-imports-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'imports')
  const noted = { NODE_OPTIONS: `--import=${NOTE_IMPORTS}`, NOTE_IMPORTS: file }
  const api = await rides.startApi({ env: { ...noted, ...env } })
  expect((await askForRide(api.url, newKey())).status).toBe(201)
  const imports = (await readFile(file, 'utf8')).split('\n')
  // They are noted, at all.
  expect(imports).toEqual(expect.arrayContaining(['@pawl/core', 'pg']))
  const found = imports.filter((name) => /opentelemetry/.test(name))
  expect(found.length > 0, found.join(' ')).toBe(isLoaded)
  api.signal('SIGTERM')
  expect(await api.ended).toBe('0')
})

onlyDeep(() => {
  test('what fails in the background is in the log', async () => {
    const api = await rides.startApi()
    await rides.provoke('error_before')
    const asked = askForRide(api.url, newKey())
    await until('a line about the phase', () =>
      Promise.resolve(api.out.some((line) => line.includes('a phase asked for another attempt'))),
    )
    await asked
    api.signal('SIGTERM')
    expect(await api.ended).toBe('0')
  })
})
