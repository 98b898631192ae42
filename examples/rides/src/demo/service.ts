import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const DIST = fileURLToPath(new URL('..', import.meta.url))
/** A process that has not started by then never will. */
const START_TIMEOUT_MS = 30_000

export interface ServiceOptions {
  readonly name: string
  /** Relative to the built files, such as `server.js`. */
  readonly script: string
  readonly env: Readonly<Record<string, string>>
  readonly logFolder: string
  /** Modules to load first, relative to the built files. */
  readonly preload?: readonly string[]
}

/** One real process of the demo. Its output goes to a log file. */
export class Service {
  readonly name: string
  readonly logFile: string
  /** How it ended: a signal's name, or its exit code. */
  readonly exited: Promise<string>
  readonly #child: ChildProcess
  #url: string | null = null
  #consoleUrl: string | null = null

  private constructor(name: string, logFile: string, child: ChildProcess) {
    this.name = name
    this.logFile = logFile
    this.#child = child
    this.exited = once(child, 'exit').then(([code, signal]) => String(signal ?? code))
  }

  /** Resolves when the process says that it is ready: with its address, if it has one. */
  static async start({ name, script, env, logFolder, preload = [] }: ServiceOptions): Promise<Service> {
    const logFile = join(logFolder, `${name}.log`)
    const imports = ['demo/life-line.js', ...preload].flatMap((module) => ['--import', join(DIST, module)])
    const child = spawn(process.execPath, [...imports, join(DIST, script)], {
      env: { PATH: process.env['PATH'] ?? '', NODE_ENV: 'production', ...env },
      // The pipe to its standard input is its lifeline: the system closes it when we end, however we end.
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    const log = createWriteStream(logFile, { flags: 'a' })
    child.stderr.pipe(log, { end: false })
    const service = new Service(name, logFile, child)
    await service.#ready(log)
    return service
  }

  get url(): string {
    if (this.#url === null) throw new Error(`${this.name} has no address`)
    return this.#url
  }

  /** Of the console beside it, if it has one. */
  get consoleUrl(): string {
    if (this.#consoleUrl === null) throw new Error(`${this.name} has no console`)
    return this.#consoleUrl
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Ends the process and waits until it has ended. */
  async end(signal: NodeJS.Signals): Promise<void> {
    this.signal(signal)
    await this.exited
  }

  async #ready(log: NodeJS.WritableStream): Promise<void> {
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })
    const ready = new Promise<void>((resolve) => {
      lines.on('line', (line) => {
        log.write(`${line}\n`)
        this.#consoleUrl ??= /console is at (http:\/\/[^"\s]+)/.exec(line)?.[1] ?? null
        const [, url] = /listening at (http:\/\/[^"\s]+)/.exec(line) ?? []
        if (url !== undefined) this.#url = url
        if (url !== undefined || line.includes('worker ready')) resolve()
      })
    })
    const timeout = AbortSignal.timeout(START_TIMEOUT_MS)
    const failed = Promise.race([
      this.exited.then((how) => `ended with ${how}`),
      once(timeout, 'abort').then(() => `was not ready within ${START_TIMEOUT_MS / 1_000} s`),
    ])
    const how = await Promise.race([ready.then(() => null), failed])
    if (how !== null) throw new Error(`${this.name} ${how}; its log is ${this.logFile}`)
  }
}
