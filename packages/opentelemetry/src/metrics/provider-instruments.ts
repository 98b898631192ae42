import type { MeterProvider } from '@opentelemetry/api'
import { listenToChannels } from './announcements.js'
import { DATABASE_GAUGES } from './database-gauges.js'
import { Instruments } from './instruments.js'
import { SharedGauges } from './shared-gauges.js'

/** What the engines of one meter provider share. */
export interface ProviderInstruments {
  readonly instruments: Instruments
  /** Duplicates by scope. A scope has sent as many as to all engines together. */
  readonly scopeGauges: SharedGauges
  /** Numbers of databases. Of two, the higher ones, as of two processes: what is stuck in one is not hidden by the other. */
  readonly databaseGauges: SharedGauges
}

interface Shared extends ProviderInstruments {
  users: number
  readonly stopListening: () => void
}

const shared = new WeakMap<MeterProvider, Shared>()

/**
 * Takes the instruments of a meter provider. They are made by the first engine that is measured there, and listen to the channels of
 * the process until the last one has given them back: however many engines there are, nothing is counted twice.
 */
export function takeInstruments(
  provider: MeterProvider,
  name: string,
): ProviderInstruments & { readonly giveBack: () => void } {
  const known = shared.get(provider) ?? create(provider, name)
  shared.set(provider, known)
  known.users++
  const giveBack = (): void => {
    known.users--
    if (known.users > 0) return
    known.stopListening()
    shared.delete(provider)
  }
  const { instruments, scopeGauges, databaseGauges } = known
  return { instruments, scopeGauges, databaseGauges, giveBack }
}

function create(provider: MeterProvider, name: string): Shared {
  const meter = provider.getMeter(name)
  const instruments = new Instruments(meter)
  return {
    instruments,
    scopeGauges: new SharedGauges(meter, instruments, ['pawl.scope.duplicates'], (one, other) => one + other),
    databaseGauges: new SharedGauges(meter, instruments, DATABASE_GAUGES, Math.max),
    users: 0,
    stopListening: listenToChannels(instruments),
  }
}
