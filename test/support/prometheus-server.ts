import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'vitest'

const PROGRAMS = ['prometheus', 'promtool']
const missing = PROGRAMS.filter((program) => !isOnPath(program))

/** For tests of what Prometheus makes of our files. Debian and Ubuntu have both programs in the package `prometheus`. */
export function describeOnPrometheus(what: string, tests: () => void): void {
  if (missing.length > 0)
    console.warn(`NOT RUN, because there is no ${missing.join(' and no ')} on the PATH: ${what}`)
  describe.runIf(missing.length === 0)(what, tests)
}

function isOnPath(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`])
    return true
  } catch {
    return false
  }
}

/** An alert as Prometheus sends it. */
interface SentAlert {
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly endsAt: string
}

/** Ends the server when its input ends, as it does when the tests are killed. */
const SUPERVISED = 'prometheus "$@" 2>"$LOG" & server=$!; read _; kill -9 $server'

/** As short as it makes sense: a test waits for several of them. */
const INTERVAL = '200ms'

/** A Prometheus that scrapes one address, has the given rules, and sends us what fires. */
export class PrometheusServer {
  readonly #folder: string
  readonly #receiver: Server
  readonly #firing = new Map<string, SentAlert>()
  #shell: ChildProcess | null = null
  #url = 'nowhere'
  #waiting: (() => void)[] = []

  private constructor(folder: string) {
    this.#folder = folder
    this.#receiver = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8')
      request.on('data', (chunk: string) => {
        body += chunk
      })
      request.on('end', () => {
        this.#receive(JSON.parse(body) as SentAlert[])
        response.end()
      })
    })
  }

  static async start(scraped: string, rules: string): Promise<PrometheusServer> {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-prometheus-'))
    const server = new PrometheusServer(folder)
    await server.#start(new URL(scraped).host, rules)
    return server
  }

  /** Resolves with an alert once it fires. */
  async fires(name: string): Promise<SentAlert> {
    for (;;) {
      const alert = this.#firing.get(name)
      if (alert !== undefined) return alert
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  /** Resolves once an alert does not fire. */
  async rests(name: string): Promise<void> {
    while (this.#firing.has(name)) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** How many time series an expression has now. Throws where it is none. */
  async count(expression: string): Promise<number> {
    const answer = await fetch(`${this.#url}/api/v1/query?query=${encodeURIComponent(expression)}`)
    const { data, error } = (await answer.json()) as {
      readonly data?: { readonly result: readonly unknown[] }
      readonly error?: string
    }
    if (data === undefined) throw new Error(`${expression}: ${error}`)
    return data.result.length
  }

  async stop(): Promise<void> {
    const ended = this.#shell && once(this.#shell, 'exit')
    this.#shell?.stdin?.end()
    await ended
    this.#receiver.closeAllConnections()
    this.#receiver.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #start(scraped: string, rules: string): Promise<void> {
    this.#receiver.listen(0, '127.0.0.1')
    await once(this.#receiver, 'listening')
    const { port } = this.#receiver.address() as AddressInfo
    const config = [
      `global: { scrape_interval: ${INTERVAL}, evaluation_interval: ${INTERVAL} }`,
      `rule_files: [rules.yml]`,
      `alerting: { alertmanagers: [{ static_configs: [{ targets: ['127.0.0.1:${port}'] }] }] }`,
      `scrape_configs: [{ job_name: pawl, static_configs: [{ targets: ['${scraped}'] }] }]`,
    ]
    await writeFile(join(this.#folder, 'rules.yml'), rules)
    await writeFile(join(this.#folder, 'prometheus.yml'), config.join('\n'))
    const address = `127.0.0.1:${await freePort()}`
    this.#url = `http://${address}`
    const args = [
      `--config.file=${join(this.#folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(this.#folder, 'data')}`,
      `--web.listen-address=${address}`,
      // What is sent once would otherwise be sent again after a minute, and what has ended would be forgotten.
      '--rules.alert.resend-delay=1s',
    ]
    this.#shell = spawn('sh', ['-c', SUPERVISED, 'sh', ...args], {
      stdio: ['pipe', 'ignore', 'inherit'],
      env: { ...process.env, LOG: join(this.#folder, 'log') },
    })
  }

  #receive(alerts: readonly SentAlert[]): void {
    for (const alert of alerts) {
      const name = alert.labels['alertname'] ?? ''
      if (new Date(alert.endsAt).getTime() > Date.now()) this.#firing.set(name, alert)
      else this.#firing.delete(name)
    }
    for (const look of this.#waiting.splice(0)) look()
  }
}

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
