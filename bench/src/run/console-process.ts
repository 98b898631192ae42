import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** The tool as it is installed, from the build. */
const PAWL = fileURLToPath(new URL('../../../packages/cli/bin/pawl.js', import.meta.url))

/** Of Linux, whatever the machine. */
const TICKS_PER_SECOND = 100
/** Among the numbers after the name of the command. */
const [USER_TICKS, SYSTEM_TICKS] = [11, 12] as const

/** A `pawl console` of its own, and the browser of somebody who is signed in. */
export class ConsoleProcess {
  readonly #child: ChildProcess
  readonly #origin: string
  readonly #cookie: string

  private constructor(child: ChildProcess, origin: string, cookie: string) {
    this.#child = child
    this.#origin = origin
    this.#cookie = cookie
  }

  static async start(databaseUrl: string, schema: string): Promise<ConsoleProcess> {
    const child = spawn(process.execPath, [PAWL, 'console', '--port', '0', '--schema', schema], {
      env: { PATH: process.env['PATH'], DATABASE_URL: databaseUrl, NODE_ENV: 'production' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
    const address = String(value)
    const { headers } = await fetch(address)
    const [cookie = ''] = headers.getSetCookie()
    return new ConsoleProcess(
      child,
      new URL('..', address).href.replace(/\/$/, ''),
      cookie.split(';')[0] ?? '',
    )
  }

  /** Returns how long the whole answer took, in milliseconds. */
  async get(path: string): Promise<number> {
    const began = performance.now()
    const response = await fetch(`${this.#origin}/${path}`, { headers: { cookie: this.#cookie } })
    const text = await response.text()
    const tookMs = performance.now() - began
    if (!response.ok) throw new Error(`The console answered ${response.status} to ${path}: ${text}`)
    return tookMs
  }

  /** Opens so many pages that listen, and reads what they get. Returns what closes them. */
  async view(count: number): Promise<() => Promise<void>> {
    const closing = new AbortController()
    const bodies = await Promise.all(
      Array.from({ length: count }, async () => {
        const response = await fetch(`${this.#origin}/api/events`, {
          headers: { cookie: this.#cookie },
          signal: closing.signal,
        })
        return response.body
      }),
    )
    // They end with an error, because they are cut off.
    const reading = bodies.map(async (body) => body?.pipeTo(new WritableStream()).catch(() => {}))
    return async () => {
      closing.abort()
      await Promise.all(reading)
    }
  }

  /** CPU time of all of its threads so far, in milliseconds. */
  async cpuMs(): Promise<number> {
    const stat = await readFile(`/proc/${this.#child.pid}/stat`, 'utf8')
    const numbers = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ticks = Number(numbers[USER_TICKS]) + Number(numbers[SYSTEM_TICKS])
    return (ticks / TICKS_PER_SECOND) * 1_000
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await ended
  }
}
