/** For adapters and test kits of this project. Not covered by semantic versioning. */
import type { Probe } from './driver/probe.js'
import { type Engine, RunningEngine } from './runner/engine.js'
import type { EngineOptions } from './runner/engine-options.js'

export type { Position, Probe } from './driver/probe.js'
export { fingerprintOf } from './key/fingerprint.js'
export { providerKeyOf } from './key/provider-key.js'

/** An engine that awaits `probe` at every position of the protocol, and can be stopped dead. */
export function createProbedEngine<DB>(
  options: EngineOptions<DB>,
  probe: Probe,
): Engine<DB> & { halt(): void } {
  return new RunningEngine<DB>(options, probe)
}
