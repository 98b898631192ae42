import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer, type ListenOptions, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { requestCancel } from '../../packages/core/src/driver/cancel-request.js'

/** Length 16, the code of a cancel request, process 7, secret 8. */
const CANCEL = Buffer.from([0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 7, 0, 0, 0, 8])
/** Length 8, the code of a request for TLS. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const TLS_HANDSHAKE = 0x16

/** A server that hands the first bytes of each connection to a test. */
async function listen(at: ListenOptions, onFirst: (bytes: Buffer, socket: Socket) => void) {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (bytes) => onFirst(bytes, socket))
  })
  server.listen(at)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return server.address()
}

/** What a cancel request needs of a client, and the result of sending one. */
function ask(client: {
  readonly host: string
  readonly port: number
  readonly ssl?: unknown
}): Promise<void> {
  const { connection } = new pg.Client() as unknown as { readonly connection: object }
  const asking = { processID: 7, secretKey: 8, ssl: false, ...client, connection }
  return new Promise((resolve) => requestCancel(asking as never, resolve))
}

test('a cancel request is sent on its own connection, and ends when the server has closed that', async () => {
  const received: Buffer[] = []
  const address = await listen({ port: 0, host: '127.0.0.1' }, (bytes, socket) => {
    received.push(bytes)
    socket.end()
  })
  await ask({ host: '127.0.0.1', port: (address as AddressInfo).port })
  expect(received).toEqual([CANCEL])
})

test('a cancel request goes to a Unix socket if its client does', async () => {
  const host = await mkdtemp(join(tmpdir(), 'cancel-'))
  onTestFinished(() => rm(host, { recursive: true }))
  const received: Buffer[] = []
  await listen({ path: join(host, '.s.PGSQL.5432') }, (bytes, socket) => {
    received.push(bytes)
    socket.end()
  })
  await ask({ host, port: 5432 })
  expect(received).toEqual([CANCEL])
})

test('the cancel request of a client with TLS is never sent in the clear, because whoever reads it could cancel as well', async () => {
  const received: Buffer[] = []
  const address = await listen({ port: 0, host: '127.0.0.1' }, (bytes, socket) => {
    received.push(bytes)
    socket.once('data', (more) => received.push(more))
    // This server does not speak TLS.
    socket.write('N')
  })
  await ask({ host: '127.0.0.1', port: (address as AddressInfo).port, ssl: true })
  expect(received).toEqual([SSL_REQUEST])
})

test('the cancel request of a client that begins with TLS begins with TLS', async () => {
  const received: (number | undefined)[] = []
  const address = await listen({ port: 0, host: '127.0.0.1' }, (bytes, socket) => {
    received.push(bytes[0])
    socket.destroy()
  })
  const direct = { ssl: true, sslNegotiation: 'direct' }
  await ask({ host: '127.0.0.1', port: (address as AddressInfo).port, ...direct })
  expect(received).toEqual([TLS_HANDSHAKE])
})

test('a cancel request is given up if nobody listens', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  await ask({ host: '127.0.0.1', port })
})

test('a cancel request is given up if nobody answers', async () => {
  const received: Buffer[] = []
  const address = await listen({ port: 0, host: '127.0.0.1' }, (bytes) => received.push(bytes))
  await ask({ host: '127.0.0.1', port: (address as AddressInfo).port })
  expect(received).toEqual([CANCEL])
})
