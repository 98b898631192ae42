import type { Environment } from './actors/environment.js'
import { discover, type Discovery } from './explore/discover.js'
import { type ExhaustiveOptions, type Mode, readExhaustiveOptions } from './explore/exhaustive-options.js'
import { Explorer, type PlannedCase } from './explore/explorer.js'
import type { Fault } from './faults/fault.js'
import { Coverage } from './finding/coverage.js'
import { Finding, isOfPipeline } from './finding/finding.js'
import { parseReplay, type Replay } from './plan/replay-line.js'
import { type CrashKitOptions, checkKitOptions } from './kit-options.js'
import { KitError } from './kit-error.js'
import { CASE_TIMEOUT_MS, RECOVERY_TIMEOUT_MS } from './limits.js'
import { type OpenEnvironment, openEnvironment } from './open-environment.js'
import { checkChild } from './explore/check-child.js'
import type { Children } from './process/children.js'
import { checkOptions } from './provider/provider-options.js'
import { race } from './races/race.js'
import { type RaceOptions, readRaceOptions } from './races/race-options.js'
import { type Runner, currentRunner, type Skip } from './runner.js'

/**
 * Crash tests of one pipeline. At the top of a vitest file, or in a `describe`, each method declares tests, one per case. Inside
 * a test, it runs the cases right there, and throws a `Finding`.
 */
export interface CrashKit {
  /**
   * Runs the request without faults to see every position that it passes, then once for every position and fault.
   *
   * @example
   * await kit.exhaustive({ faults: ['crash', 'lostCommitAck', 'providerTimeout'], depth: 2 })
   *
   * @example
   * // Real processes, killed by SIGKILL:
   * await kit.exhaustive({ faults: ['crash'], mode: 'process' })
   */
  exhaustive(options?: ExhaustiveOptions): Promise<void>
  /**
   * Lets several actors race for one key, in many orders. One of them moves at a time.
   *
   * @example
   * await kit.races({ actors: ['client', 'duplicate', 'completer', 'zombie'], runs: 200 })
   */
  races(options?: RaceOptions): Promise<void>
  /**
   * Runs one case again, from the line that a finding ends with. If that names faults of your own, pass them as `faults`.
   *
   * @example
   * await kit.replay('crash@charge_created/call#1:after')
   *
   * @example
   * await kit.replay('ridesLocked@ride_created/begin#1:before', [ridesLocked])
   */
  replay(line: string, faults?: readonly Fault[]): Promise<void>
  /** How many cases and races have run so far. */
  readonly casesRun: number
  /** Returns what was planned and what fired, as a table. */
  coverage(): string
  /** Drops the kit's schemas and ends its connections. Under vitest, this happens by itself when the tests have run. */
  close(): Promise<void>
}

/**
 * Tests that a pipeline survives crashes, on a real PostgreSQL.
 *
 * @example
 * const kit = crashKit({ pipeline: createRide, pool, provider, request: { scope: 'rider-1', input: { amount: 1_200 } } })
 * await kit.exhaustive({ faults: ['crash', 'throw', 'lostCommitAck', 'providerTimeout'], depth: 2 })
 * await kit.races({ actors: ['client', 'duplicate', 'completer', 'reaper', 'zombie'], runs: 200 })
 */
export function crashKit<DB, Input>(options: CrashKitOptions<DB, Input>): CrashKit {
  checkOptions('crashKit', () => checkKitOptions(options as unknown as CrashKitOptions<never, never>))
  return new RunningKit(options as unknown as CrashKitOptions<never, never>)
}

/** What running cases takes. */
interface Prepared {
  readonly environment: Environment
  readonly discovery: Discovery
  /** Null where attempts run in this process. */
  readonly children: Children | null
}

class RunningKit implements CrashKit {
  readonly #options: CrashKitOptions<never, never>
  readonly #coverage = new Coverage()
  #open: Promise<OpenEnvironment> | null = null
  #discovery: Promise<Discovery> | null = null
  #childChecked: Promise<void> | null = null
  #casesRun = 0
  #turn: Promise<void> = Promise.resolve()
  /** The case in which a lint was found. Until that is fixed, other cases would report the same. */
  #lintFoundIn: string | null = null

  constructor(options: CrashKitOptions<never, never>) {
    this.#options = options
  }

  get casesRun(): number {
    return this.#casesRun
  }

  coverage(): string {
    return this.#coverage.render()
  }

  async exhaustive(options: ExhaustiveOptions = {}): Promise<void> {
    const { provider, child } = this.#options
    const has = { hasProvider: provider !== undefined, hasChild: child !== undefined }
    const { faults, depth, mode } = checkOptions('exhaustive', () => readExhaustiveOptions(options, has))
    const runner = await this.#runner()
    const { environment, discovery, children } = await this.#prepared(mode)
    const explorer = new Explorer(environment, discovery, faults, this.#coverage, children)
    for (const { text } of discovery.positions) this.#coverage.addReached(text)
    await runner.group(
      `${environment.shape.name} survives${mode === 'process' ? ' SIGKILL' : ''}`,
      async (test) => {
        for (const first of explorer.firstCases()) {
          await test(first.title, CASE_TIMEOUT_MS, async (skip) => {
            this.#skipAfterLint(skip)
            await this.#run(explorer, first)
          })
          if (depth === 1) continue
          await test(`${first.title}, then any fault in its recovery`, RECOVERY_TIMEOUT_MS, async (skip) => {
            this.#skipAfterLint(skip)
            const result = await this.#run(explorer, first)
            for (const second of explorer.secondCases(first, result)) await this.#run(explorer, second)
          })
        }
        await test('every planned fault fired', CASE_TIMEOUT_MS, async (skip) => {
          this.#skipAfterLint(skip)
          this.#coverage.assertComplete()
          runner.print(this.#coverage.render())
        })
      },
    )
  }

  async races(options: RaceOptions = {}): Promise<void> {
    const wanted = checkOptions('races', () => readRaceOptions(options))
    const runner = await this.#runner()
    const title = `races of ${wanted.actors.join(', ')} (${wanted.runs} runs, seed ${wanted.seed})`
    await runner.test(title, CASE_TIMEOUT_MS + wanted.runs * CASE_TIMEOUT_MS, async (skip) => {
      this.#skipAfterLint(skip)
      const { environment, discovery } = await this.#prepared()
      await this.#inTurn(() => race(environment, discovery, wanted, () => this.#casesRun++))
    })
  }

  async replay(line: string, faults: readonly Fault[] = []): Promise<void> {
    const replay = parseReplay(line)
    const runner = await this.#runner()
    await runner.test(`replay of ${line}`, RECOVERY_TIMEOUT_MS, async () => {
      const { environment, discovery, children } = await this.#prepared(modeOf(replay))
      switch (replay.kind) {
        case 'plan': {
          const explorer = new Explorer(environment, discovery, faults, new Coverage(), children)
          await this.#run(explorer, explorer.named(replay.plan))
          return
        }
        case 'races': {
          const { kind: _kind, ...wanted } = replay
          await this.#inTurn(() =>
            race(environment, discovery, readRaceOptions(wanted as RaceOptions), () => this.#casesRun++),
          )
        }
      }
    })
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = null
    this.#discovery = null
    this.#childChecked = null
    await (await open)?.close()
  }

  #run(explorer: Explorer, planned: PlannedCase) {
    return this.#inTurn(() => {
      this.#casesRun++
      return explorer.run(planned)
    })
  }

  #skipAfterLint(skip: Skip): void {
    if (this.#lintFoundIn !== null) skip(`Fix the lint of '${this.#lintFoundIn}' first.`)
  }

  /** Runs one case at a time, however the tests are run, because they share the database, the provider and its ledger. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(run)
    turn.catch((error: unknown) => {
      if (error instanceof Finding && error.violations.some(isOfPipeline)) this.#lintFoundIn ??= error.title
    })
    this.#turn = turn.then(
      () => {},
      () => {},
    )
    return turn
  }

  async #runner(): Promise<Runner> {
    return currentRunner(() => this.close())
  }

  async #prepared(mode: Mode = 'in-process'): Promise<Prepared> {
    this.#open ??= openEnvironment(this.#options)
    const { environment, children } = await this.#open
    this.#discovery ??= discover(environment, this.#options.ignore ?? [])
    const discovery = await this.#discovery
    if (mode === 'in-process') return { environment, discovery, children: null }
    if (children === null)
      throw new KitError('PAWL_KIT_CHILD', 'To run a case in a process of its own, pass `child` to crashKit.')
    this.#childChecked ??= checkChild(environment, children, discovery)
    await this.#childChecked
    return { environment, discovery, children }
  }
}

function modeOf(replay: Replay): Mode {
  return (replay.kind === 'plan' ? replay.mode : undefined) ?? 'in-process'
}
