import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import {
  connect as connectHttp2,
  createServer as createHttp2Server,
  type Http2ServerResponse,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Flow } from '@pawl/core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { AsJson } from '../../packages/console/src/api.js'
import { EventStream } from '../../packages/console/src/event-stream.js'
import {
  HEARTBEAT_MS,
  MAX_STREAM_MS,
  MAX_STREAMS,
  MAX_UNREAD_MS,
  STREAM_END_MS,
} from '../../packages/console/src/limits.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { errorOf } from './console-client.js'
import { consoleOn, type TestConsole } from './console-on.js'
import { EventReader, openStream } from './event-reader.js'
import { onlyDeep } from '../support/amounts.js'

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
})
afterAll(() => database.drop())

const ANNA = { 'x-user': 'anna' }

async function started(): Promise<TestConsole> {
  const console = await consoleOn(database)
  onTestFinished(() => console.close())
  return console
}

async function listening({ origin }: TestConsole): Promise<EventReader> {
  const reader = await EventReader.open(origin, ANNA)
  onTestFinished(() => reader.close())
  return reader
}

/** How many keys of a pipeline stand anywhere, and nobody runs them. */
function standing(name: string, { pipelines }: AsJson<Flow>): number {
  const points = pipelines.find((each) => each.name === name)?.points ?? []
  return points.reduce((sum, { unattended }) => sum + unattended, 0)
}

describe('a stream of events', () => {
  test('says where requests stand, and again when that has changed', async () => {
    const console = await started()
    const reader = await listening(console)
    expect(reader.response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    })
    expect((await reader.next('retry')).data).toBe('2000')
    const first = await reader.next('flow')
    // By the database's clock, whatever this machine's says.
    expect(Date.parse(first.data.at)).not.toBeNaN()
    expect(standing('moved', first.data)).toBe(0)
    await seedKey(database, { pipeline: 'moved' })
    await reader.next('flow', (heard) => standing('moved', heard.data) === 1)
  })

  test('costs the database as much with ten pages as with one', async () => {
    const pool = database.pool()
    const readPool = database.pool()
    let reads = 0
    readPool.on('acquire', () => reads++)
    const console = await consoleOn(database, { pool, readPool })
    onTestFinished(() => console.close())
    const readers = await Promise.all(Array.from({ length: 10 }, () => listening(console)))
    const moments = new Set<string>()
    for (let n = 0; n < 3; n++) for (const reader of readers) moments.add((await reader.next('flow')).data.at)
    // Each reading is one connection taken, whoever gets to see it; another may be under way.
    expect(reads).toBeLessThanOrEqual(moments.size + 1)
  })

  test('says that the database is away, and goes on when it is back', async () => {
    const proxy = await PostgresProxy.start(database.url)
    const { port } = new URL(proxy.url)
    const pool = database.pool({ connectionString: proxy.url })
    const console = await consoleOn(database, { pool })
    const reader = await EventReader.open(console.origin, ANNA)
    await reader.next('flow')
    await proxy.close()
    const gone = await reader.next('gone')
    expect(gone.data).toEqual({
      code: 'database_away',
      message: 'The database cannot be reached. What is shown may be out of date.',
    })
    // The pages come up all the same, and what needs the database says so.
    expect((await console.as('anna').get('api/session')).status).toBe(200)
    const answer = await console.as('anna').get('api/requests')
    expect(answer.status).toBe(503)
    expect(errorOf(answer).code).toBe('database_away')
    expect(JSON.stringify(answer.body)).not.toMatch(/127\.0\.0\.1|ECONN|postgres/)
    const back = await PostgresProxy.start(database.url, Number(port))
    await reader.next('flow')
    // Only the first failure is logged, and not each of those that follow.
    expect(console.errors.filter((line) => line.includes('cannot read where requests stand'))).toHaveLength(1)
    reader.close()
    await console.close()
    await back.close()
  })

  test('is not opened for others, nor for one more page than there may be', async () => {
    const console = await started()
    const readers = await Promise.all(
      Array.from({ length: MAX_STREAMS }, () => openStream(console.origin, ANNA)),
    )
    expect(readers.every(({ statusCode }) => statusCode === 200)).toBe(true)
    const answer = await console.as('anna').get('api/events')
    expect(answer.status).toBe(503)
    expect(errorOf(answer).code).toBe('busy')
    // One that is closed makes room.
    const [first] = readers
    first?.destroy()
    await vi.waitFor(async () => {
      const response = await openStream(console.origin, ANNA)
      readers.push(response)
      expect(response.statusCode).toBe(200)
    })
    for (const reader of readers) reader.destroy()
  })

  test('is over at once for a browser that left while it was found out who it is', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const leaving = request({ port, agent: false }).on('error', () => {})
    leaving.end()
    const [, left] = (await once(server, 'request')) as [unknown, ServerResponse]
    leaving.destroy()
    await once(left, 'close')
    await new EventStream(left, {}).closed
  })

  test('ends with the app, also where nobody reads it', async () => {
    const console = await consoleOn(database)
    const reader = await EventReader.open(console.origin, ANNA)
    await reader.next('flow')
    const unread = await openStream(console.origin, ANNA)
    const ends = once(reader.response, 'close')
    await console.close()
    await ends
    unread.destroy()
  })
})

interface Served {
  readonly stream: EventStream
  readonly response: ServerResponse
  readonly read: IncomingMessage
}

/** A stream over a real socket, whose reader reads only when it is told to. */
async function served(): Promise<Served> {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sent = request({ port, agent: false }).end()
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse]
  const stream = new EventStream(response, {})
  const [read] = (await once(sent, 'response')) as [IncomingMessage]
  read.on('error', () => {})
  return { stream, response, read }
}

/** Larger than what sockets hold for each other. */
const LARGE = { text: 'x'.repeat(1_024 * 1_024) }

describe('to a browser that does not read', () => {
  test('nothing piles up: what it gets in the end is the latest', async () => {
    const { stream, response, read } = await served()
    const unread: number[] = []
    for (let n = 0; n < 200; n++) {
      stream.send('flow', { n, ...LARGE })
      unread.push(response.writableLength)
    }
    expect(Math.max(...unread)).toBeLessThan(2 * JSON.stringify(LARGE).length)
    const numbers: number[] = []
    let text = ''
    const latest = new Promise<void>((resolve) => {
      read.setEncoding('utf8').on('data', (part: string) => {
        text += part
        const frames = text.split('\n\n')
        text = frames.pop() ?? ''
        for (const frame of frames) {
          const [, n] = /"n":(\d+)/.exec(frame) ?? []
          if (n !== undefined) numbers.push(Number(n))
          if (n === '199') resolve()
        }
      })
    })
    await latest
    expect(numbers.length).toBeLessThan(50)
    stream.close()
  })

  onlyDeep(() => {
    test('nothing piles up with HTTP/2 either', async () => {
      const server = createHttp2Server().listen(0, '127.0.0.1')
      await once(server, 'listening')
      const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
      onTestFinished(() => {
        client.destroy()
        server.close()
      })
      const sent = client.request()
      const [, response] = (await once(server, 'request')) as [unknown, Http2ServerResponse]
      const stream = new EventStream(response as unknown as ServerResponse, {})
      await once(sent, 'response')
      const unread: number[] = []
      for (let n = 0; n < 20; n++) {
        stream.send('flow', { n, ...LARGE })
        unread.push(response.stream.writableLength)
      }
      expect(Math.max(...unread)).toBeLessThan(2 * JSON.stringify(LARGE).length)
      sent.destroy()
      await stream.closed
    })
  })

  test('the connection is cut in the end', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { stream, response } = await served()
    while (!response.writableNeedDrain) stream.send('flow', LARGE)
    vi.advanceTimersByTime(MAX_UNREAD_MS - 1)
    expect(response.destroyed).toBe(false)
    vi.advanceTimersByTime(1)
    expect(response.destroyed).toBe(true)
    await stream.closed
  })

  test('and soon where the server closes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { stream, response } = await served()
    // More than sockets on one machine take without being read.
    stream.send('flow', { text: LARGE.text.repeat(32) })
    stream.close()
    vi.advanceTimersByTime(STREAM_END_MS)
    await stream.closed
    expect(response.destroyed).toBe(true)
  })
})

test('a stream that says nothing has heartbeats, and ends after a while, so that whoever may no longer look stops seeing', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { response, stream, read } = await served()
  let text = ''
  const ended = once(read.setEncoding('utf8'), 'end')
  read.on('data', (part: string) => (text += part))
  vi.advanceTimersByTime(3 * HEARTBEAT_MS)
  vi.advanceTimersByTime(MAX_STREAM_MS)
  expect(response.writableEnded).toBe(true)
  await ended
  expect(text.split(':\n\n').length - 1).toBeGreaterThanOrEqual(3)
  await stream.closed
})
