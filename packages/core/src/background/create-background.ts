import { checkKnownOptions, invalidOption, type OptionOwner } from '../check-option.js'
import { contextOf } from '../engine/engine-context.js'
import type { Engine } from '../engine/engine.js'
import { Completer, type CompleterCounts, type CompleterOptions } from './completer.js'
import { recordUntilDone } from './record-until-done.js'
import { Reaper, type ReaperCounts, type ReaperOptions } from './reaper.js'
import type { RelayCounts } from './job-results.js'
import { Relay } from './relay.js'
import type { RelayOptions } from './relay-options.js'
import type { Service, StopOptions } from './service.js'

/** Which services run beside an engine. */
export interface BackgroundOptions<DB> {
  /** The completer runs its pipelines, on its pool. */
  readonly engine: Engine<DB>
  /** `false`: none here. Default: on. */
  readonly completer?: CompleterOptions | false
  /** One relay, or one for each sink. Default: none, because only you know the queue. */
  readonly relay?: RelayOptions | readonly RelayOptions[]
  /** `false`: none here. Default: on. */
  readonly reaper?: ReaperOptions | false
}

/** What one round of each service did; services that do not run here are left out. */
export interface BackgroundCounts {
  readonly completer?: CompleterCounts
  readonly relays: readonly RelayCounts[]
  readonly reaper?: ReaperCounts
}

/** The services, with one start and one stop. */
export interface Background extends Service<BackgroundCounts> {
  /** Null where it is switched off. */
  readonly completer: Service<CompleterCounts> | null
  readonly relays: readonly Service<RelayCounts>[]
  readonly reaper: Service<ReaperCounts> | null
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createBackground' }
const OPTION_NAMES = [
  'engine',
  'completer',
  'relay',
  'reaper',
] as const satisfies readonly (keyof BackgroundOptions<never>)[]

/**
 * Creates the services that finish unattended requests, hand over staged jobs and delete expired keys. Stop them before
 * the engine closes.
 *
 * @example
 * const background = createBackground({ engine, relay: { sink } })
 * background.start()
 * process.once('SIGTERM', async () => {
 *   await background.stop()
 *   await engine.close()
 * })
 */
export function createBackground<DB>(options: BackgroundOptions<DB>): Background {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  for (const name of ['completer', 'reaper'] as const) {
    const given: unknown = options[name]
    if (given === true || given === null) throw invalidOption(OWNER, name, given, 'options, or false')
  }
  const engine = options.engine as unknown as Engine<never>
  const { completer = {}, relay = [], reaper = {} } = options
  const relays = Array.isArray(relay) ? (relay as readonly RelayOptions[]) : [relay as RelayOptions]
  checkNames(relays)
  return new RunningBackground(
    completer === false ? null : new Completer(engine, completer),
    relays.map((one) => new Relay(engine, one)),
    reaper === false ? null : new Reaper(engine, reaper),
    () => recordUntilDone(engine, contextOf(engine, 'createBackground')),
  )
}

/** Two relays that take the same jobs would give some of them to the wrong queue. */
function checkNames(relays: readonly RelayOptions[]): void {
  if (relays.length < 2) return
  const names = relays.flatMap((relay) => relay.names ?? [])
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined)
    throw invalidOption(OWNER, `relay: the name '${twice}'`, 'in two relays', 'each name in one relay only')
  if (relays.some((relay) => relay.names === undefined))
    throw invalidOption(OWNER, 'relay: names', undefined, 'a list for each of several relays')
}

class RunningBackground implements Background {
  readonly completer: Service<CompleterCounts> | null
  readonly relays: readonly Service<RelayCounts>[]
  readonly reaper: Service<ReaperCounts> | null
  /** Has the engine's pipelines recorded; returns a function that stops it. */
  readonly #record: () => () => void
  #stopRecording: (() => void) | null = null

  constructor(
    completer: Service<CompleterCounts> | null,
    relays: readonly Service<RelayCounts>[],
    reaper: Service<ReaperCounts> | null,
    record: () => () => void,
  ) {
    this.completer = completer
    this.relays = relays
    this.reaper = reaper
    this.#record = record
  }

  start(): void {
    this.#stopRecording ??= this.#record()
    for (const service of this.#services()) service.start()
  }

  async stop(options: StopOptions = {}): Promise<void> {
    this.#stopRecording?.()
    this.#stopRecording = null
    await Promise.all(this.#services().map((service) => service.stop(options)))
  }

  async runOnce(): Promise<BackgroundCounts> {
    const [completer, relays, reaper] = await Promise.all([
      this.completer?.runOnce(),
      Promise.all(this.relays.map((relay) => relay.runOnce())),
      this.reaper?.runOnce(),
    ])
    return { relays, ...(completer && { completer }), ...(reaper && { reaper }) }
  }

  #services(): Service<unknown>[] {
    return [this.completer, ...this.relays, this.reaper].filter((service) => service !== null)
  }
}
