import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'

/** A Redis for one contender. */
export interface StartedRedis {
  readonly url: string
  stop(): Promise<void>
}

/** Ends the server when its input ends, as it does with this process, however that ends. */
const SUPERVISED = 'redis-server "$@" >/dev/null & server=$!; read _; kill -9 $server'

/** Whether `startRedis` can do what it is for. */
export function hasRedis(): boolean {
  if (process.env['REDIS_URL'] !== undefined) return true
  try {
    execFileSync('sh', ['-c', 'command -v redis-server'])
    return true
  } catch {
    return false
  }
}

/** Uses the Redis of `REDIS_URL`, or starts one on a free port, without persistence. Its client waits until it has come up. */
export async function startRedis(): Promise<StartedRedis> {
  const given = process.env['REDIS_URL']
  if (given !== undefined) return { url: given, stop: async () => {} }
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', tmpdir()]
  const shell = spawn('sh', ['-c', SUPERVISED, 'sh', ...args], { stdio: ['pipe', 'ignore', 'inherit'] })
  return {
    url: `redis://127.0.0.1:${port}`,
    async stop() {
      const ended = once(shell, 'exit')
      shell.stdin.end()
      await ended
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
