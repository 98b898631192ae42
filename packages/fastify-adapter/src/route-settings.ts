import type { PipelineSettings } from '@pawl/core'
import {
  checkKnownOptions,
  checkOptionalFunction,
  checkPipelineSettings,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import { checkBoolean } from './check-boolean.js'
import type { ChooseFingerprint } from './fingerprint-request.js'
import type { IdempotencyOptions } from './options.js'
import type { PluginSettings } from './plugin-settings.js'
import { readRespondAsync, type RespondAsync } from './respond-async.js'
import { readSharedOptions, type SharedSettings } from './shared-settings.js'
import { statusSuffix } from './status-address.js'
import { patternOf } from './stored-key.js'

/** How one marked route is handled. */
export interface RouteSettings extends SharedSettings {
  readonly plugin: PluginSettings
  /** Null means on POST and PATCH. */
  readonly required: boolean | null
  readonly fingerprint: ChooseFingerprint<never, never> | null
  /** What distinguishes the route from others with the same path; null where nothing does. */
  readonly constraints: string | null
  /** Its methods and pattern, for people. */
  readonly name: string
  /**
   * The same, with whatever else distinguishes it from other routes. Together with the address, it is part of every
   * fingerprint.
   */
  readonly origin: string
  /** What goes between the address of a request and its id, to ask for its status. */
  readonly statusSuffix: string
  /** Null when the handler runs a pipeline. */
  readonly atomic: PipelineSettings | null
  readonly respondAsync: RespondAsync
}

/** What a route declares about idempotency. */
export type RouteMark =
  | { readonly type: 'marked'; readonly settings: RouteSettings }
  | { readonly type: 'exempt'; readonly reason: string | null }

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
        'nothing besides exempt: a route is either exempt or protected',
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
    'sentAt',
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
      ...readSharedOptions(owner, options, plugin),
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
