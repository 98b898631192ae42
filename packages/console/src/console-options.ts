import { PawlError, type Protection } from '@pawl/core'
import {
  checkKnownOptions,
  checkOptionalFunction,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import type { Pool } from 'pg'
import { DEFAULT_POLL_MS, MAX_POLL_MS, MIN_POLL_MS } from './limits.js'
import type { Authenticate } from './user.js'

/** What the console works with. */
export interface ConsoleOptions {
  /** Makes the changes that people ask for. Its role needs the rights of an operator. */
  readonly pool: Pool
  /**
   * Reads. Best with a role that may only read, or on a replica. Default: connections like those of `pool`, on which every transaction
   * is read-only. Behind a pooler that takes no startup options, such as PgBouncer, a pool has to be given.
   */
  readonly readPool?: Pool
  /**
   * Says who sends a request. Without it, the console answers only requests that come in over loopback, and the app refuses to listen
   * on anything else.
   */
  readonly authenticate?: Authenticate
  /** The schema of Pawl's tables. Default `pawl`. */
  readonly schema?: string
  /** The engine's `protect`. Without it, protected values cannot be revealed. */
  readonly protect?: Protection
  /** The engine's `hashSecret`. */
  readonly hashSecret?: string
  /** Where a trace is shown, with `{traceId}` in it, such as `https://tempo.example/trace/{traceId}`. Default: no link. */
  readonly traceUrl?: string
  /** How often the map is read while somebody looks at it. Default 2000. */
  readonly pollMs?: number
}

/** The options with defaults filled in. */
export interface ConsoleSettings {
  readonly pool: Pool
  /** Null where one is to be made. */
  readonly readPool: Pool | null
  readonly authenticate: Authenticate | null
  readonly schema: string
  readonly protect: Protection | null
  readonly hashSecret: string | null
  readonly traceUrl: string | null
  readonly pollMs: number
}

const PLUGIN: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'register(consolePlugin)' }
const NAMES = [
  'pool',
  'readPool',
  'authenticate',
  'schema',
  'protect',
  'hashSecret',
  'traceUrl',
  'pollMs',
] as const satisfies readonly (keyof ConsoleOptions)[]

/** Checks the options once. What the operator takes as well, `createOperator` checks. */
export function readConsoleOptions(options: ConsoleOptions): ConsoleSettings {
  // Fastify also passes every plugin the options of `register` itself.
  const {
    prefix: _prefix,
    logLevel: _level,
    logSerializers: _serializers,
    ...own
  } = options as unknown as Record<string, unknown>
  checkKnownOptions(PLUGIN, own, NAMES)
  const { pool, readPool, authenticate, traceUrl } = options
  checkPool('pool', pool)
  if (readPool !== undefined) {
    checkPool('readPool', readPool)
    // Whoever passes the same pool twice believes that reads cannot write.
    if (readPool === pool)
      throw new PawlError(
        PLUGIN.code,
        `${PLUGIN.where}: readPool is the pool that writes. Leave it out, or give one whose role may only read.`,
      )
  }
  checkOptionalFunction(PLUGIN, 'authenticate', authenticate)
  if (traceUrl !== undefined) checkTraceUrl(traceUrl)
  checkWholeNumber(PLUGIN, 'pollMs', options.pollMs, MIN_POLL_MS, MAX_POLL_MS)
  return {
    pool,
    readPool: readPool ?? null,
    authenticate: authenticate ?? null,
    schema: options.schema ?? 'pawl',
    protect: options.protect ?? null,
    hashSecret: options.hashSecret ?? null,
    traceUrl: traceUrl ?? null,
    pollMs: options.pollMs ?? DEFAULT_POLL_MS,
  }
}

function checkPool(option: string, pool: unknown): void {
  if (typeof (pool as Partial<Pool> | undefined)?.connect !== 'function')
    throw invalidOption(PLUGIN, option, pool, 'a pg.Pool')
}

/** It becomes the target of a link: a `javascript:` would run in the page. */
function checkTraceUrl(url: unknown): void {
  const takes = "an address that begins with https:// or http:// and has '{traceId}' in it"
  const isUrl =
    typeof url === 'string' && /^https?:\/\//.test(url) && URL.canParse(url) && url.includes('{traceId}')
  if (!isUrl) throw invalidOption(PLUGIN, 'traceUrl', url, takes)
}
