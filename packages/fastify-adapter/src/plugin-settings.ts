import { PawlError } from '@pawl/core'
import {
  canBind,
  checkFunction,
  checkKnownOptions,
  checkOneOf,
  checkOptionalFunction,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
  safeErrorOf,
} from '@pawl/core/internal'
import { checkBoolean } from './check-boolean.js'
import { readHeaderName } from './header-name.js'
import { DEFAULT_WAITERS_PER_SCOPE, MAX_WAITERS } from './limits.js'
import type { FastifyPawlOptions } from './options.js'
import { type Profile, profiles } from './profile.js'
import { type AsyncSettings, readAsyncOptions } from './respond-async.js'
import { readSharedOptions, type SharedSettings } from './shared-settings.js'
import { StoredHeaders } from './stored-headers.js'

/** The options with defaults filled in: what the rest of the adapter reads. */
export interface PluginSettings extends SharedSettings {
  readonly engine: FastifyPawlOptions['engine']
  readonly scope: FastifyPawlOptions['scope']
  /** A copy of an error for logs, without what the engine redacts. */
  readonly safeError: (error: unknown) => Error
  /** Null when keys are not bound. */
  readonly bindTo: NonNullable<FastifyPawlOptions['bindTo']> | null
  readonly header: string
  readonly profile: Profile
  readonly storedHeaders: StoredHeaders
  /** Null when no address is given. */
  readonly problemBaseUrl: string | null
  readonly enforce: 'off' | 'warn' | 'error'
  readonly strict: boolean
  readonly close: { readonly timeoutMs?: number }
  readonly waitersPerScope: number
  /** Null when every request is answered only once it has run. */
  readonly respondAsync: AsyncSettings | null
}

const DEFAULT_HEADER = 'idempotency-key'

const PLUGIN: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'register(fastifyPawl)' }

/** Checks the plugin's options once and fills in defaults. */
export function readPluginOptions(options: FastifyPawlOptions): PluginSettings {
  // Fastify also passes every plugin the options of `register` itself.
  const {
    prefix: _prefix,
    logLevel: _level,
    logSerializers: _serializers,
    ...own
  } = options as unknown as Record<string, unknown>
  checkKnownOptions(PLUGIN, own, [
    'engine',
    'scope',
    'bindTo',
    'header',
    'keyScope',
    'onConflict',
    'sentAt',
    'profile',
    'storedHeaders',
    'problemBaseUrl',
    'enforce',
    'strict',
    'closeTimeoutMs',
    'respondAsync',
    'waitersPerScope',
  ])
  const { engine, scope, closeTimeoutMs, strict } = options
  if (typeof (engine as { execute?: unknown } | undefined)?.execute !== 'function')
    throw invalidOption(PLUGIN, 'engine', engine, 'what createEngine returns')
  checkFunction(PLUGIN, 'scope', scope)
  checkBindTo(options)
  checkOneOf(PLUGIN, 'profile', options.profile, Object.keys(profiles))
  checkOneOf(PLUGIN, 'enforce', options.enforce, ['off', 'warn', 'error'])
  checkBoolean(PLUGIN, 'strict', strict)
  checkTimerMs(PLUGIN, 'closeTimeoutMs', closeTimeoutMs, 0)
  checkWholeNumber(PLUGIN, 'waitersPerScope', options.waitersPerScope, 0, MAX_WAITERS)
  const header = readHeaderName(PLUGIN, 'header', options.header ?? DEFAULT_HEADER)
  return {
    engine,
    scope,
    safeError: (error) => safeErrorOf(engine, error),
    bindTo: options.bindTo ?? null,
    header,
    ...readSharedOptions(PLUGIN, options, { header, keyScope: 'account', waitMs: 0, sentAt: null }),
    profile: profiles[options.profile ?? 'ietf'],
    storedHeaders: readStoredHeaders(header, options.storedHeaders ?? []),
    problemBaseUrl: options.problemBaseUrl === undefined ? null : readUrl(options.problemBaseUrl),
    enforce: options.enforce ?? 'warn',
    strict: strict ?? process.env['NODE_ENV'] !== 'production',
    close: closeTimeoutMs === undefined ? {} : { timeoutMs: closeTimeoutMs },
    waitersPerScope: options.waitersPerScope ?? DEFAULT_WAITERS_PER_SCOPE,
    respondAsync: readAsyncOptions(PLUGIN, options.respondAsync ?? false),
  }
}

function checkBindTo({ engine, bindTo }: FastifyPawlOptions): void {
  checkOptionalFunction(PLUGIN, 'bindTo', bindTo)
  if (bindTo === undefined || canBind(engine)) return
  throw new PawlError(
    PLUGIN.code,
    `${PLUGIN.where}: bindTo needs a secret to hash with. Give createEngine the option protect, or hashSecret.`,
  )
}

function readStoredHeaders(header: string, names: readonly string[]): StoredHeaders {
  if (!Array.isArray(names)) throw invalidOption(PLUGIN, 'storedHeaders', names, 'a list of header names')
  const added = names.map((name) => readHeaderName(PLUGIN, 'storedHeaders', name))
  const stored = new StoredHeaders(header, added)
  const refused = added.find((name) => !stored.canHave(name))
  if (refused !== undefined)
    throw invalidOption(PLUGIN, 'storedHeaders', refused, 'only headers that may be replayed')
  return stored
}

function readUrl(url: unknown): string {
  if (typeof url !== 'string' || url === '' || /[#\s]/.test(url))
    throw invalidOption(PLUGIN, 'problemBaseUrl', url, 'an address without a fragment')
  return url
}
