import type { Engine, EngineOptions } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { positionNamer } from './crash.js'
import type { Database } from './rides.js'
import { gate } from './signals.js'

/** A position at which an engine waits until it is told to go on. */
interface Stop {
  readonly reached: Promise<void>
  readonly go: () => void
}

/** An engine that stops at several positions, one after the other, like a process that stalls where a test wants it to. */
export function engineWithStops<const At extends readonly string[]>(
  options: EngineOptions<Database>,
  ...at: At
): { readonly engine: Engine<Database>; readonly passed: readonly string[]; readonly stops: StopsAt<At> } {
  const name = positionNamer()
  const passed: string[] = []
  const stops = at.map(() => ({ reached: gate(), left: gate() }))
  const engine = createProbedEngine<Database>(options, (position) => {
    const here = name(position)
    passed.push(here)
    const stop = stops[at.indexOf(here)]
    stop?.reached.open()
    return stop?.left.opened
  })
  return {
    engine,
    passed,
    stops: stops.map(({ reached, left }) => ({ reached: reached.opened, go: left.open })) as StopsAt<At>,
  }
}

type StopsAt<At extends readonly string[]> = { readonly [Index in keyof At]: Stop }
