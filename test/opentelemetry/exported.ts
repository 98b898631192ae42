import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'

/** A sample of an export. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** Reads Prometheus's text format. */
function readSamples(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', labels = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
      const pairs = Array.from(labels.matchAll(LABEL), ([, label = '', of = '']) => [label, of])
      return { name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) }
    })
}

/** Metrics as Prometheus gets them, from the official exporter. */
export class Exported {
  readonly provider: MeterProvider
  readonly url: string
  readonly #server: Server

  private constructor(provider: MeterProvider, server: Server) {
    this.provider = provider
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`
  }

  static async start(): Promise<Exported> {
    const exporter = new PrometheusExporter({ preventServerStart: true, withoutScopeInfo: true })
    const provider = new MeterProvider({ readers: [exporter] })
    const server = createServer((request, response) => exporter.getMetricsRequestHandler(request, response))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new Exported(provider, server)
  }

  async text(): Promise<string> {
    return (await fetch(this.url)).text()
  }

  async samples(): Promise<Sample[]> {
    return readSamples(await this.text())
  }

  /** The sum of all samples of a name with these labels. */
  async sum(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const samples = await this.samples()
    return samples
      .filter((sample) => sample.name === name)
      .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0)
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await this.provider.shutdown()
  }
}
