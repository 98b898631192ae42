import type { EngineOptions, JsonValue, Pipeline } from '@pawl/core'
import {
  checkFunction,
  checkKnownOptions,
  checkLayout,
  checkOneOf,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import type { Pool } from 'pg'
import type { Prepare } from './database/kit-database.js'
import { type ChildOptions, checkChildOptions } from './process/child-options.js'
import type { FakeProvider } from './provider/fake-provider.js'

/**
 * What a kit needs to know.
 *
 * @example
 * const provider = fakeProvider()
 * const kit = crashKit({ pipeline: createRideWith(provider), pool, provider, request: { scope: 'rider-1', input } })
 */
export interface CrashKitOptions<DB, Input> {
  /**
   * The pipeline under test. A function is called again for each engine, so that a crash also takes away what a pipeline keeps
   * in its closure. It is called after `provider` has begun to listen.
   */
  readonly pipeline: Pipeline<DB, Input> | (() => Pipeline<DB, Input>)
  /**
   * Says which database to use. The kit opens its own connections, and works in schemas of its own. Default: the kit starts a
   * PostgreSQL of its own.
   */
  readonly pool?: Pool
  /** Receives the pipeline's calls. Without one, faults of the provider cannot be tried. */
  readonly provider?: FakeProvider
  /** The request that every case sends, under a key of its own. It has to end in a response when nothing goes wrong. */
  readonly request: {
    readonly scope: string
    readonly input: NoInfer<Input>
    readonly fingerprint?: JsonValue | Uint8Array
    readonly bindTo?: string
  }
  /**
   * Creates your tables in the kit's schema, which comes first in the search path of the `pool` that it gets. Default: the kit
   * copies the tables that your pool sees, with their rows, but without triggers, views and policies.
   */
  readonly prepare?: Prepare
  /** How child processes get the pipeline, for `exhaustive({ mode: 'process' })`. */
  readonly child?: ChildOptions
  /** What your application passes to `createEngine`. */
  readonly engine?: Omit<Partial<EngineOptions<DB>>, 'pool' | 'pipelines' | 'schema'>
  /**
   * Paths of what may differ from a run without faults, besides ids and times: `tables.rides.position`, `response.body.token`,
   * `jobs.payload.*`.
   */
  readonly ignore?: readonly string[]
  /** How Pawl's tables are stored, as you tell `migrate`. Default `plain`. */
  readonly layout?: (typeof LAYOUTS)[number]
  /** Into how many partitions, where `layout` is `partitioned`. Default 16; a few are enough for a test, and quicker to make. */
  readonly partitions?: number
}

/** Those with which everything is on one server, whose rows the audit's triggers can see. */
const LAYOUTS = ['plain', 'partitioned'] as const

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'crashKit' }
const OPTION_NAMES = [
  'pipeline',
  'pool',
  'provider',
  'request',
  'prepare',
  'child',
  'engine',
  'ignore',
  'layout',
  'partitions',
] as const satisfies readonly (keyof CrashKitOptions<unknown, unknown>)[]

export function checkKitOptions(options: CrashKitOptions<never, never>): void {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  const { pipeline, pool, request, prepare, child, ignore, layout } = options as Partial<
    CrashKitOptions<never, never>
  >
  const isPipeline = typeof pipeline === 'function' || typeof pipeline?.describe === 'function'
  if (!isPipeline)
    throw invalidOption(OWNER, 'pipeline', pipeline, 'a pipeline, or a function that returns one')
  if (pool !== undefined && typeof (pool as Partial<Pool>).connect !== 'function')
    throw invalidOption(OWNER, 'pool', pool, 'a pg.Pool')
  if (typeof request?.scope !== 'string' || !('input' in request))
    throw invalidOption(OWNER, 'request', request, '{ scope, input }')
  checkKnownOptions({ ...OWNER, where: 'crashKit: request' }, request, [
    'scope',
    'input',
    'fingerprint',
    'bindTo',
  ])
  checkOneOf(OWNER, 'layout', layout, LAYOUTS)
  checkLayout(OWNER, options)
  if (prepare !== undefined) checkFunction(OWNER, 'prepare', prepare)
  if (child !== undefined) checkChildOptions(child)
  if (ignore !== undefined && !(Array.isArray(ignore) && ignore.every((path) => typeof path === 'string')))
    throw invalidOption(OWNER, 'ignore', ignore, 'a list of paths')
}
