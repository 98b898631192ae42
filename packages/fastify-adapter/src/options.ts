import type { Engine, PipelineSettings } from '@pawl/core'
import {
  checkFunction,
  checkKnownOptions,
  checkOneOf,
  checkOptionalFunction,
  checkPipelineSettings,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import type { FastifyRequest } from 'fastify'
import type { ChooseFingerprint } from './fingerprint-request.js'
import { MAX_WAIT_MS } from './limits.js'
import { type Profile, type ProfileName, profiles } from './profile.js'
import {
  type AsyncSettings,
  readAsyncOptions,
  readRespondAsync,
  type RespondAsync,
  type RespondAsyncOptions,
} from './respond-async.js'
import { statusSuffix } from './status-address.js'
import { StoredHeaders } from './stored-headers.js'
import { patternOf } from './stored-key.js'

/** What a request meets whose key is being processed. */
export type OnConflict =
  /** 409 at once. */
  | 'reject'
  /** Held until the first has finished, at most this long; then its response, or 409. */
  | { readonly waitMs: number }

/** Within what a key has to be unique. */
export type KeyScope =
  /** Within the scope, as at Stripe: the same key at another endpoint is a mistake of the client. */
  | 'account'
  /** Within the scope and the route: the same key at another route is another request. */
  | 'route'

/** What a route can set; the plugin's options are its defaults. */
interface SharedOptions {
  /** Within what a key has to be unique. Default `account`. */
  readonly keyScope?: KeyScope
  /** What a request meets whose key is being processed. Default `reject`: 409. */
  readonly onConflict?: OnConflict
}

/** How a route is marked, when `true` does not say enough. */
export interface IdempotencyOptions<Body = unknown, Query = unknown> extends SharedOptions {
  /**
   * Whether a request without a key is refused. Default: on POST and PATCH. With `false`, a request without a key runs
   * under a generated one: it survives a crash, but a retry of the client is a new request and a second effect.
   */
  readonly required?: boolean
  /**
   * What of the body and query makes two requests the same. Default: all of it. Method and path always count.
   *
   * @example
   * fingerprint: ({ body: { sent_at, ...rest } }) => rest // a retry has another time stamp
   */
  readonly fingerprint?: ChooseFingerprint<Body, Query>
  /**
   * Turns the route's handler into one transaction: it works with `request.tx`, and what it returns is stored with its
   * rows and replayed from then on. `true`, or the settings of that transaction.
   *
   * @example
   * app.post('/notes', { schema, idempotency: { atomic: true } }, async (request, reply) => {
   *   const note = await request.tx.insertInto('notes').values(request.body).returning('id').executeTakeFirstOrThrow()
   *   reply.code(201)
   *   return note
   * })
   */
  readonly atomic?: boolean | PipelineSettings
  /**
   * Which requests get 202 and the address of their status, while the completer runs them. Default `preferred` where the
   * plugin has `respondAsync`, else `never`. Not for atomic handlers.
   */
  readonly respondAsync?: RespondAsync
}

/** Why a route that changes state takes no key. */
export interface IdempotencyExemption {
  /** The reason, for whoever reads the audit. */
  readonly exempt: string
}

/**
 * The `idempotency` option of a route: `true` marks it; `false`, or `{ exempt: 'why' }`, says that it needs no key.
 *
 * @example
 * app.post('/rides', { idempotency: true }, (request) => request.pawl.run(createRide, request.body))
 */
export type RouteIdempotency<Body = unknown, Query = unknown> =
  | boolean
  | IdempotencyOptions<Body, Query>
  | IdempotencyExemption

/**
 * What the plugin is registered with. Only `engine` and `scope` are needed.
 *
 * @example
 * await app.register(fastifyPawl, { engine, scope: (request) => request.user?.id })
 */
export interface FastifyPawlOptions extends SharedOptions {
  /** Runs the pipelines. It is closed with the app. */
  readonly engine: Engine<any>
  /**
   * Who owns the key: the authenticated tenant, user or account. Asked after all hooks, so after authentication; never
   * take it from the body. Nothing returned means: refuse the request.
   */
  readonly scope: (request: FastifyRequest) => string | null | undefined | Promise<string | null | undefined>
  /** Name of the header that carries the key. Default `idempotency-key`. */
  readonly header?: string
  /** Whose conventions answers follow. Default `ietf`: problem details as in RFC 9457. */
  readonly profile?: ProfileName
  /**
   * Headers of a response that are stored and replayed although they are of the moment, such as `retry-after`. All others
   * that an operation sets are, but for cookies and headers of the connection: docs/http.md has the list.
   */
  readonly storedHeaders?: readonly string[]
  /**
   * An address of yours where clients can read about problems: the `type` of a problem is then this address with the problem's
   * code as fragment. Default: none, and the `type` is `about:blank`.
   */
  readonly problemBaseUrl?: string
  /** What to do about a POST or PATCH that takes no key and is not exempt, once the app is ready. Default `warn`. */
  readonly enforce?: 'off' | 'warn' | 'error'
  /**
   * Fails a marked route whose handler answers without running its pipeline; otherwise that is only logged. Default: on
   * unless NODE_ENV is `production`.
   */
  readonly strict?: boolean
  /** How long requests may go on once the app closes. Default 10 s, as for `engine.close`. */
  readonly closeTimeoutMs?: number
  /**
   * Lets clients have 202 at once with `Prefer: respond-async`, and registers the resource that says what became of their
   * requests. These run in the completer of `createBackground`, here or in another process. Default: off.
   */
  readonly respondAsync?: boolean | RespondAsyncOptions
}

/** The options with defaults filled in: what the rest of the adapter reads. */
export interface PluginSettings {
  readonly engine: FastifyPawlOptions['engine']
  readonly scope: FastifyPawlOptions['scope']
  readonly header: string
  readonly keyScope: KeyScope
  readonly waitMs: number
  readonly profile: Profile
  readonly storedHeaders: StoredHeaders
  /** Null: no address is told. */
  readonly problemBaseUrl: string | null
  readonly enforce: 'off' | 'warn' | 'error'
  readonly strict: boolean
  readonly close: { readonly timeoutMs?: number }
  /** Null: every request is answered once it has run. */
  readonly respondAsync: AsyncSettings | null
}

/** How one marked route is handled. */
export interface RouteSettings {
  readonly plugin: PluginSettings
  /** Null: on POST and PATCH. */
  readonly required: boolean | null
  readonly keyScope: KeyScope
  readonly waitMs: number
  readonly fingerprint: ChooseFingerprint<never, never> | null
  /** What tells the route from others of the same path; null where nothing does. */
  readonly constraints: string | null
  /** Its methods and pattern, for people. */
  readonly name: string
  /** The same with what else tells it from other routes: with the address, part of every fingerprint. */
  readonly origin: string
  /** What is put between the address of a request and its id, to ask for its status. */
  readonly statusSuffix: string
  /** Null: the handler runs a pipeline. */
  readonly atomic: PipelineSettings | null
  readonly respondAsync: RespondAsync
}

/** How a route stands to idempotency. */
export type RouteMark =
  | { readonly type: 'marked'; readonly settings: RouteSettings }
  | { readonly type: 'exempt'; readonly reason: string | null }

const DEFAULT_HEADER = 'idempotency-key'

const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]+$/
const PLUGIN: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'register(fastifyPawl)' }

/** Checks the plugin's options once and fills in defaults. */
export function readPluginOptions(options: FastifyPawlOptions): PluginSettings {
  // Fastify gives every plugin the options of `register` itself, too.
  const {
    prefix: _prefix,
    logLevel: _level,
    logSerializers: _serializers,
    ...own
  } = options as unknown as Record<string, unknown>
  checkKnownOptions(PLUGIN, own, [
    'engine',
    'scope',
    'header',
    'keyScope',
    'onConflict',
    'profile',
    'storedHeaders',
    'problemBaseUrl',
    'enforce',
    'strict',
    'closeTimeoutMs',
    'respondAsync',
  ])
  const { engine, scope, closeTimeoutMs, strict } = options
  if (typeof (engine as { execute?: unknown } | undefined)?.execute !== 'function')
    throw invalidOption(PLUGIN, 'engine', engine, 'what createEngine gives')
  checkFunction(PLUGIN, 'scope', scope)
  checkOneOf(PLUGIN, 'profile', options.profile, Object.keys(profiles))
  checkOneOf(PLUGIN, 'enforce', options.enforce, ['off', 'warn', 'error'])
  checkBoolean(PLUGIN, 'strict', strict)
  checkTimerMs(PLUGIN, 'closeTimeoutMs', closeTimeoutMs, 0)
  const header = readHeaderName('header', options.header ?? DEFAULT_HEADER)
  return {
    engine,
    scope,
    header,
    ...readShared(PLUGIN, options, { keyScope: 'account', waitMs: 0 }),
    profile: profiles[options.profile ?? 'ietf'],
    storedHeaders: readStoredHeaders(header, options.storedHeaders ?? []),
    problemBaseUrl: options.problemBaseUrl === undefined ? null : readUrl(options.problemBaseUrl),
    enforce: options.enforce ?? 'warn',
    strict: strict ?? process.env['NODE_ENV'] !== 'production',
    close: closeTimeoutMs === undefined ? {} : { timeoutMs: closeTimeoutMs },
    respondAsync: readAsyncOptions(PLUGIN, options.respondAsync ?? false),
  }
}

/** Checks a route's `idempotency` option and fills in the plugin's defaults. */
export function readRouteOption(
  plugin: PluginSettings,
  route: { readonly methods: readonly string[]; readonly url: string; readonly constraints: string | null },
  option: unknown,
): RouteMark {
  const { constraints, url } = route
  const name = `${route.methods.join(', ')} ${url}`
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: `idempotency of ${name}` }
  if (option === false) return { type: 'exempt', reason: null }
  if (option !== true && (typeof option !== 'object' || option === null))
    throw invalidOption(owner, 'the option', option, 'true, false or an object')
  if (option !== true && 'exempt' in option) {
    const { exempt, ...others } = option
    const [other] = Object.keys(others)
    if (other !== undefined)
      throw invalidOption(
        owner,
        other,
        others[other as never],
        'nothing beside exempt: a route is exempt, or protected',
      )
    if (typeof exempt !== 'string' || exempt === '')
      throw invalidOption(owner, 'exempt', exempt, 'the reason, as text')
    return { type: 'exempt', reason: exempt }
  }
  const given = option === true ? {} : option
  checkKnownOptions(owner, given, [
    'required',
    'keyScope',
    'onConflict',
    'fingerprint',
    'atomic',
    'respondAsync',
    'exempt',
  ])
  const options = given as IdempotencyOptions
  checkBoolean(owner, 'required', options.required)
  checkOptionalFunction(owner, 'fingerprint', options.fingerprint)
  const atomic = readAtomic(owner, options.atomic ?? false)
  return {
    type: 'marked',
    settings: {
      plugin,
      constraints,
      name,
      statusSuffix: statusSuffix(plugin.respondAsync?.statusPath ?? '', route.methods),
      origin: patternOf(route.methods.join(', '), url, constraints),
      required: options.required ?? null,
      ...readShared(owner, options, plugin),
      fingerprint: (options.fingerprint as ChooseFingerprint<never, never> | undefined) ?? null,
      atomic,
      respondAsync: readRespondAsync(owner, options.respondAsync, {
        isOffered: plugin.respondAsync !== null,
        isAtomic: atomic !== null,
        url,
      }),
    },
  }
}

function readAtomic(owner: OptionOwner, atomic: boolean | PipelineSettings): PipelineSettings | null {
  if (typeof atomic === 'boolean') return atomic ? {} : null
  if (typeof atomic !== 'object' || atomic === null)
    throw invalidOption(owner, 'atomic', atomic, 'true, false or the settings of a pipeline')
  checkPipelineSettings({ ...owner, where: `${owner.where}: atomic` }, atomic)
  return atomic
}

interface Shared {
  readonly keyScope: KeyScope
  readonly waitMs: number
}

function readShared(owner: OptionOwner, options: SharedOptions, defaults: Shared): Shared {
  const { keyScope, onConflict } = options
  checkOneOf(owner, 'keyScope', keyScope, ['account', 'route'])
  return {
    keyScope: keyScope ?? defaults.keyScope,
    waitMs: onConflict === undefined ? defaults.waitMs : readWait(owner, onConflict),
  }
}

function readWait(owner: OptionOwner, onConflict: OnConflict): number {
  if (onConflict === 'reject') return 0
  if (typeof onConflict !== 'object' || onConflict === null)
    throw invalidOption(owner, 'onConflict', onConflict, "'reject' or { waitMs }")
  const within: OptionOwner = { ...owner, where: `${owner.where}: onConflict` }
  checkKnownOptions(within, onConflict, ['waitMs'])
  checkWholeNumber(within, 'waitMs', onConflict.waitMs ?? null, 1, MAX_WAIT_MS)
  return onConflict.waitMs
}

function readStoredHeaders(header: string, names: readonly string[]): StoredHeaders {
  if (!Array.isArray(names)) throw invalidOption(PLUGIN, 'storedHeaders', names, 'a list of header names')
  const added = names.map((name) => readHeaderName('storedHeaders', name))
  const stored = new StoredHeaders(header, added)
  const refused = added.find((name) => !stored.canHave(name))
  if (refused !== undefined)
    throw invalidOption(PLUGIN, 'storedHeaders', refused, 'headers that may be replayed, and that is not one')
  return stored
}

function readHeaderName(option: string, name: unknown): string {
  const lower = typeof name === 'string' ? name.toLowerCase() : ''
  if (!TOKEN.test(lower)) throw invalidOption(PLUGIN, option, name, 'the name of a header')
  return lower
}

function readUrl(url: unknown): string {
  if (typeof url !== 'string' || url === '' || /[#\s]/.test(url))
    throw invalidOption(PLUGIN, 'problemBaseUrl', url, 'an address without a fragment')
  return url
}

function checkBoolean(owner: OptionOwner, option: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean')
    throw invalidOption(owner, option, value, 'true or false')
}
