import { fork } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Started } from './messages.js'

/** From the folder of the built files also where tests run the sources: a process needs JavaScript. */
const SUPERVISOR = fileURLToPath(new URL('../../dist/restate/supervisor.js', import.meta.url))

/** A start takes about two seconds; on a busy machine, more. */
const START_LIMIT_MS = 60_000
const START_POLL_MS = 50

/** A Restate server with a data directory and ports of its own. */
export interface RestateServer {
  readonly ingressUrl: string
  /** Makes the services of this endpoint known. */
  register(endpointUrl: string): Promise<void>
  /** Stops it where it is, until `resume`. */
  pause(): void
  resume(): void
  /** Ends it and removes its files. */
  stop(): Promise<void>
}

/** Starts a server that ends with this process, however this process ends. */
export async function startRestate(): Promise<RestateServer> {
  const supervisor = fork(SUPERVISOR, [], {
    // A session of its own, so that Ctrl-C reaches us only and the supervisor lives to clean up.
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    cwd: tmpdir(),
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  const ended = once(supervisor, 'exit')
  const message = once(supervisor, 'message') as Promise<[Started]>
  const started = await Promise.race([
    message.then(([told]) => told),
    ended.then(() => ({ error: 'The supervisor of Restate ended.' })),
  ])

  async function stop(): Promise<void> {
    if (supervisor.connected) supervisor.disconnect()
    await ended
  }

  if ('error' in started) {
    await stop()
    throw new Error(started.error)
  }
  const { pid, ingressUrl, adminUrl } = started
  try {
    await untilReady(`${adminUrl}/health`)
    await untilReady(`${ingressUrl}/restate/health`)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    ingressUrl,
    async register(endpointUrl) {
      const response = await fetch(`${adminUrl}/deployments`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ uri: endpointUrl }),
      })
      if (!response.ok)
        throw new Error(`Restate refused the endpoint: ${response.status} ${await response.text()}`)
    },
    pause: () => void process.kill(pid, 'SIGSTOP'),
    resume: () => void process.kill(pid, 'SIGCONT'),
    stop,
  }
}

async function untilReady(url: string): Promise<void> {
  const deadline = performance.now() + START_LIMIT_MS
  while (!(await isOk(url))) {
    if (performance.now() > deadline) throw new Error(`Restate is not ready: ${url}`)
    await delay(START_POLL_MS)
  }
}

async function isOk(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok
  } catch {
    return false
  }
}
