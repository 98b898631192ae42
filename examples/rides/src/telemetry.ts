import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import type { Engine, Operator } from '@pawl/core'
import { instrument } from '@pawl/opentelemetry'
import type { Database } from './database.js'

const RESOURCE = resourceFromAttributes({ 'service.name': 'rides' })

/** A collector beside us answers in milliseconds. One that is away must not hold up the end of the process. */
const EXPORT_TIMEOUT_MS = 2_000

/** This process's OpenTelemetry SDK: metrics for Prometheus to fetch, and traces that are sent to a collector. */
export class Telemetry {
  /** Where Prometheus gets the metrics; null where nobody asked for them. */
  readonly metricsUrl: string | null
  readonly #server: Server | null
  readonly #meters: MeterProvider | null
  readonly #tracers: NodeTracerProvider | null

  private constructor(
    server: Server | null,
    meters: MeterProvider | null,
    tracers: NodeTracerProvider | null,
  ) {
    this.#server = server
    this.#meters = meters
    this.#tracers = tracers
    this.metricsUrl = server && `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`
  }

  /** `otlpEndpoint`: the collector's address, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it. */
  static async start(metricsPort: number | null, otlpEndpoint: URL | null): Promise<Telemetry> {
    const exporter = metricsPort === null ? null : new PrometheusExporter({ preventServerStart: true })
    const meters = exporter && new MeterProvider({ resource: RESOURCE, readers: [exporter] })
    const server = exporter && (await listen(exporter, metricsPort ?? 0))
    return new Telemetry(server, meters, otlpEndpoint && trace(otlpEndpoint))
  }

  watch(engine: Engine<Database>, operator: Operator): void {
    instrument({
      engine,
      operator,
      ...(this.#meters && { meterProvider: this.#meters }),
      ...(this.#tracers && { tracerProvider: this.#tracers }),
    })
  }

  /** Sends what has not been sent. */
  async close(): Promise<void> {
    this.#server?.closeAllConnections()
    this.#server?.close()
    // A collector that is away is its own problem.
    await Promise.allSettled([this.#meters?.shutdown(), this.#tracers?.shutdown()])
  }
}

async function listen(exporter: PrometheusExporter, port: number): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.method === 'GET' && request.url === '/metrics')
      exporter.getMetricsRequestHandler(request, response)
    else response.writeHead(404).end()
  })
  // Only for a Prometheus on this machine: nobody has to sign in.
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function trace(endpoint: URL): NodeTracerProvider {
  const url = `${endpoint.href.replace(/\/$/, '')}/v1/traces`
  const processor = new BatchSpanProcessor(new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS }))
  const tracers = new NodeTracerProvider({ resource: RESOURCE, spanProcessors: [processor] })
  // With it, spans are below each other across callbacks and promises.
  tracers.register()
  return tracers
}
