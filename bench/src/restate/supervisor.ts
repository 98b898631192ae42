/**
 * A process of its own that owns one Restate server. When the process that started it is gone, killed or not, it kills the
 * server, removes its files and ends.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Started } from './messages.js'

/** Enough to hold an error with its context. */
const LOG_LINES_IN_ERROR = 20

const LISTENERS = { ingress: 'http-ingress-server', admin: 'admin-api-server' } as const

/** The part of a log line that says where the server listens. */
interface LogLine {
  readonly span?: { readonly server_name?: string; readonly 'server.port'?: number }
}

let server: ChildProcess | undefined

// A temporary directory like that of PostgreSQL, so that both sync to the same disk.
const directory = await mkdtemp(join(tmpdir(), 'pawl-restate-'))

process.on('disconnect', () => void cleanUp())
process.on('SIGTERM', () => void cleanUp())
process.on('SIGINT', () => void cleanUp())

// Whoever started us may have ended before there was somebody to hear of it.
if (process.connected) await tell(await start().catch((error: unknown) => ({ error: String(error) })))
else await cleanUp()

/** Durable settings are its defaults: its log is synced to disk before a step counts as done. */
async function start(): Promise<Started> {
  const flags = ['--base-dir', directory, '--bind-ip', '127.0.0.1', '--use-random-ports', 'true', '--no-logo']
  const child = spawn(locateBinary(), flags, {
    cwd: directory,
    // Nothing from the caller's environment: RESTATE_… there must not change what is measured.
    env: {
      RESTATE_DISABLE_TELEMETRY: 'true',
      RESTATE_LISTEN_MODE: 'tcp',
      RESTATE_LOG_FORMAT: 'json',
      // Longer than a contender waits for its turn: its process is stopped then, and answers no ping.
      RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL: '10m',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  server = child
  const ports = new Map<string, number>()
  const lastLines: string[] = []
  const lines = createInterface({ input: child.stdout })
  return new Promise((resolve) => {
    child.on('error', ({ message }) => resolve({ error: `The Restate server did not start: ${message}` }))
    child.on('exit', () => resolve({ error: `The Restate server ended.\n${lastLines.join('\n')}` }))
    // It is read to the end: a server whose output nobody takes would stop at a full pipe.
    lines.on('line', (line) => {
      lastLines.push(line)
      if (lastLines.length > LOG_LINES_IN_ERROR) lastLines.shift()
      if (ports.size === Object.keys(LISTENERS).length) return
      const { server_name: name, 'server.port': port } = readLine(line).span ?? {}
      if (port !== undefined && (name === LISTENERS.ingress || name === LISTENERS.admin))
        ports.set(name, port)
      const ingress = ports.get(LISTENERS.ingress)
      const admin = ports.get(LISTENERS.admin)
      if (ingress === undefined || admin === undefined) return
      resolve({
        pid: child.pid ?? 0,
        ingressUrl: `http://127.0.0.1:${ingress}`,
        adminUrl: `http://127.0.0.1:${admin}`,
      })
    })
  })
}

/** Only the package with the launcher can see the one with the binary. The launcher would outlive a SIGKILL's child. */
function locateBinary(): string {
  const launcher = createRequire(import.meta.url).resolve('@restatedev/restate-server/package.json')
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`
  return createRequire(launcher).resolve(`${name}/bin/restate-server`)
}

function readLine(line: string): LogLine {
  try {
    return JSON.parse(line) as LogLine
  } catch {
    return {}
  }
}

async function tell(started: Started): Promise<void> {
  await new Promise((resolve) => (process.connected ? process.send?.(started, resolve) : resolve(null)))
}

async function cleanUp(): Promise<never> {
  if (server !== undefined && server.exitCode === null && server.signalCode === null) {
    const ended = once(server, 'exit')
    // Its files go, too, and it may be stopped at the moment: no other signal would reach it.
    server.kill('SIGKILL')
    await ended
  }
  await rm(directory, { recursive: true, force: true })
  process.exit()
}
