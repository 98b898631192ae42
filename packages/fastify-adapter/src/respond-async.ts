import {
  checkFunction,
  checkKnownOptions,
  checkOneOf,
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

/** How requests are answered before they have run. A completer has to run somewhere, or they never do. */
export interface RespondAsyncOptions {
  /** Where to ask what became of a request: `GET <statusPath>/<id>`. Default `/idempotent-requests`. */
  readonly statusPath?: string
  /** How long a client can have its answer held with `Prefer: wait=…`; 0 ignores that. Default 10 s. */
  readonly maxWaitMs?: number
  /** Hooks of the status resource, such as an authentication that your routes name one by one. */
  readonly onRequest?: StatusHook | readonly StatusHook[]
}

/** As Fastify takes it: asynchronous, or with a callback. */
type StatusHook = (
  request: FastifyRequest,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
) => void | Promise<unknown>

/** How requests are answered before they have run. */
export interface AsyncSettings {
  /** Without the prefix of the instance that the plugin is registered on. */
  readonly statusPath: string
  /** With it: what clients are told. */
  readonly statusUrl: string
  readonly maxWaitMs: number
  readonly onRequest: onRequestHookHandler[] | null
}

const DEFAULT_STATUS_PATH = '/idempotent-requests'

/** Neither parameters nor wildcards: a client is told the address as it is. It would resolve `.` and `..` itself. */
const STATUS_PATH = /^(?:\/(?!\.\.?(?:\/|$))[A-Za-z0-9._~-]+)+$/

/** The plugin's option. `prefix` is that of the instance it is registered on. */
export function readAsyncOptions(
  plugin: OptionOwner,
  option: boolean | RespondAsyncOptions,
  prefix: string,
): AsyncSettings | null {
  if (option === false) return null
  if (option !== true && (typeof option !== 'object' || option === null))
    throw invalidOption(plugin, 'respondAsync', option, 'true, false or an object')
  const given: RespondAsyncOptions = option === true ? {} : option
  const owner: OptionOwner = { ...plugin, where: `${plugin.where}: respondAsync` }
  checkKnownOptions(owner, given, ['statusPath', 'maxWaitMs', 'onRequest'])
  const { statusPath = DEFAULT_STATUS_PATH, maxWaitMs = DEFAULT_MAX_PREFERRED_WAIT_MS } = given
  if (typeof statusPath !== 'string' || !STATUS_PATH.test(statusPath))
    throw invalidOption(owner, 'statusPath', statusPath, "a path such as '/operations', without parameters")
  if (/[:*]/.test(prefix)) {
    const takes = 'no part of an instance whose prefix has parameters. Register the plugin further out'
    throw invalidOption(owner, 'statusPath', `${prefix}${statusPath}`, takes)
  }
  checkWholeNumber(owner, 'maxWaitMs', maxWaitMs, 0, MAX_WAIT_MS)
  const hooks = given.onRequest === undefined ? [] : [given.onRequest].flat()
  for (const hook of hooks) checkFunction(owner, 'onRequest', hook)
  return {
    statusPath,
    statusUrl: `${prefix}${statusPath}`,
    maxWaitMs,
    onRequest: hooks.length === 0 ? null : hooks,
  }
}

/** Which requests of a route are answered before they have run. */
export function readRespondAsync(
  owner: OptionOwner,
  respondAsync: RespondAsync | undefined,
  route: { readonly isOffered: boolean; readonly isAtomic: boolean },
): RespondAsync {
  checkOneOf(owner, 'respondAsync', respondAsync, ['always', 'preferred', 'never'])
  if (respondAsync === undefined) return route.isOffered && !route.isAtomic ? 'preferred' : 'never'
  if (respondAsync === 'never') return respondAsync
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
