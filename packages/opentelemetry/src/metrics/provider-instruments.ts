import type { Meter, MeterProvider } from '@opentelemetry/api'
import { listenToChannels } from './announcements.js'
import { Instruments } from './instruments.js'

/** What the engines of one meter provider share. */
export interface ProviderInstruments {
  readonly meter: Meter
  readonly instruments: Instruments
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
  return { meter: known.meter, instruments: known.instruments, giveBack }
}

function create(provider: MeterProvider, name: string): Shared {
  const meter = provider.getMeter(name)
  const instruments = new Instruments(meter)
  return { meter, instruments, users: 0, stopListening: listenToChannels(instruments) }
}
