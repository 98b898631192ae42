import type { Config } from './config.js'
import type { Telemetry } from './telemetry.js'

/**
 * Traces and metrics, as far as the environment asks for them. Null where it does not: then nothing of OpenTelemetry is even
 * loaded.
 */
export async function openTelemetry(config: Config): Promise<Telemetry | null> {
  const { metricsPort, otelExporterOtlpEndpoint } = config
  if (metricsPort === null && otelExporterOtlpEndpoint === null) return null
  const { Telemetry } = await import('./telemetry.js')
  return Telemetry.start(metricsPort, otelExporterOtlpEndpoint)
}
