import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect, inject, onTestFinished, test } from 'vitest'
import type { Reply, Request } from '../../bench/src/run/messages.js'
import type { OpenedHandle } from '../../bench/src/run/worker-commands.js'

const WORKER = fileURLToPath(new URL('../../bench/dist/worker.js', import.meta.url))

test('the server of Restate ends with the process of its contender, even if that is killed', async () => {
  const worker = fork(WORKER, ['restate'], {
    stdio: ['pipe', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  })
  onTestFinished(() => void worker.kill('SIGKILL'))
  const options = { databaseUrl: inject('databaseUrl'), providerUrl: 'http://127.0.0.1:9', poolSize: 1 }
  const request: Request = { id: 1, name: 'open', argument: { ...options, providerDelayMs: 0 } }
  worker.send(request)
  const [reply] = (await once(worker, 'message')) as [Reply]
  if ('error' in reply) throw new Error(reply.error)
  const { url } = reply.value as OpenedHandle
  const { hostname, port } = new URL(url ?? '')
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  // Whether it is closed or reset does not matter.
  socket.on('error', () => {})
  const closed = new Promise((resolve) => socket.on('close', resolve))
  worker.kill('SIGKILL')
  await closed
  expect(socket.destroyed).toBe(true)
})
