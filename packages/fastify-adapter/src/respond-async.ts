import {
  checkFunction,
  checkKnownOptions,
  checkOneOf,
  checkOptionalFunction,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction, onRequestHookHandler } from 'fastify'
import { DEFAULT_MAX_PREFERRED_WAIT_MS, MAX_WAIT_MS } from './limits.js'

/** Which requests are answered with 202 before they have run. */
export type RespondAsync =
  /** All of them. */
  | 'always'
  /** Those that ask for it with `Prefer: respond-async`. */
  | 'preferred'
  /** None: the preference is ignored. */
  | 'never'

/** How requests are answered before they have run. A completer has to be running somewhere, or they never run. */
export interface RespondAsyncOptions {
  /**
   * Where to ask what became of a request, below the address it was sent to: `GET /rides<statusPath>/<id>`. Default
   * `/idempotent-requests`.
   */
  readonly statusPath?: string
  /** How long a client can have its answer held back with `Prefer: wait=…`; 0 ignores that preference. Default 10 s. */
  readonly maxWaitMs?: number
  /**
   * Further hooks for the status resources. The hooks of the route that a request was sent to run as they do for that
   * route.
   */
  readonly onRequest?: StatusHook | readonly StatusHook[]
  /**
   * Whether the caller may see the status, in addition to what the route's hooks say. Nothing but `true` lets the answer
   * through. It is needed where a hook of the route looks at the body, which a request for the status does not have.
   *
   * @example
   * authorize: async (request, { pipeline }) => request.user.mayRun.includes(pipeline)
   */
  readonly authorize?: AuthorizeStatus
}

/** Whether the caller may learn what became of a request. */
export type AuthorizeStatus = (request: FastifyRequest, asked: AskedStatus) => boolean | Promise<boolean>

/** The request whose status is asked for. It belongs to the caller's scope. */
export interface AskedStatus {
  /** As `pawl show --id` accepts it. */
  readonly keyId: string
  /** Who owns it: what the plugin's `scope` returned for the caller. */
  readonly scope: string
  /** The name of the pipeline that runs it. */
  readonly pipeline: string
  /** The method and pattern that it was sent to, such as `POST /rides`. */
  readonly route: string
}

/** As Fastify accepts it: asynchronous, or with a callback. */
type StatusHook = (
  request: FastifyRequest,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
) => void | Promise<unknown>

/** How requests are answered before they have run. */
export interface AsyncSettings {
  /** What goes between the address of a request and its id. */
  readonly statusPath: string
  readonly maxWaitMs: number
  readonly onRequest: readonly onRequestHookHandler[]
  readonly authorize: AuthorizeStatus | null
}

const DEFAULT_STATUS_PATH = '/idempotent-requests'

/**
 * Neither parameters nor wildcards, because a client gets the address as it is. The client itself would resolve `.` and
 * `..`.
 */
const STATUS_PATH = /^(?:\/(?!\.\.?(?:\/|$))[A-Za-z0-9._~-]+)+$/

/** Reads the plugin's option. */
export function readAsyncOptions(
  plugin: OptionOwner,
  option: boolean | RespondAsyncOptions,
): AsyncSettings | null {
  if (option === false) return null
  if (option !== true && (typeof option !== 'object' || option === null))
    throw invalidOption(plugin, 'respondAsync', option, 'true, false or an object')
  const given: RespondAsyncOptions = option === true ? {} : option
  const owner: OptionOwner = { ...plugin, where: `${plugin.where}: respondAsync` }
  checkKnownOptions(owner, given, ['statusPath', 'maxWaitMs', 'onRequest', 'authorize'])
  const { statusPath = DEFAULT_STATUS_PATH, maxWaitMs = DEFAULT_MAX_PREFERRED_WAIT_MS } = given
  if (typeof statusPath !== 'string' || !STATUS_PATH.test(statusPath))
    throw invalidOption(owner, 'statusPath', statusPath, "a path such as '/operations', without parameters")
  checkWholeNumber(owner, 'maxWaitMs', maxWaitMs, 0, MAX_WAIT_MS)
  const hooks = given.onRequest === undefined ? [] : [given.onRequest].flat()
  for (const hook of hooks) checkFunction(owner, 'onRequest', hook)
  checkOptionalFunction(owner, 'authorize', given.authorize)
  return { statusPath, maxWaitMs, onRequest: hooks, authorize: given.authorize ?? null }
}

/** Which requests of a route are answered before they have run. */
export function readRespondAsync(
  owner: OptionOwner,
  respondAsync: RespondAsync | undefined,
  route: { readonly isOffered: boolean; readonly isAtomic: boolean; readonly url: string },
): RespondAsync {
  checkOneOf(owner, 'respondAsync', respondAsync, ['always', 'preferred', 'never'])
  // Nothing can follow these in the pattern of a route, so there is no address for a status.
  const isOpen = /[*?]$/.test(route.url)
  if (respondAsync === undefined) return route.isOffered && !route.isAtomic && !isOpen ? 'preferred' : 'never'
  if (respondAsync === 'never') return respondAsync
  if (isOpen) {
    const takes =
      "only 'never' on a route that ends with a wildcard or an optional parameter: its status has no address"
    throw invalidOption(owner, 'respondAsync', respondAsync, takes)
  }
  if (route.isAtomic) {
    const takes = "only 'never' on an atomic route: its handler needs the request. Run a pipeline for this"
    throw invalidOption(owner, 'respondAsync', respondAsync, takes)
  }
  if (!route.isOffered) {
    const takes =
      "only 'never' here, because clients would have no status to ask for. Give register(fastifyPawl) " +
      'respondAsync: true, and run a completer (createBackground)'
    throw invalidOption(owner, 'respondAsync', respondAsync, takes)
  }
  return respondAsync
}
