import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '../check-option.js'
import { PawlError } from '../errors.js'
import { MAX_DURATION_MS, MAX_INT32 } from '../limits.js'
import type { ScopeLimit } from '../storage/keys/insert-limited-key.js'

/**
 * How much one scope may have. What is left out is not limited.
 *
 * @example
 * const limits: Limits = { newKeys: { max: 100, perMs: 60_000 }, unfinished: 50 }
 */
export interface Limits {
  /** So many new keys at once, and as many again in each `perMs`, spread evenly. */
  readonly newKeys?: { readonly max: number; readonly perMs: number }
  /** So many unfinished keys at once: running, waiting for their next attempt, or stuck. */
  readonly unfinished?: number
}

/** One for all scopes, or one for each, such as by its plan. It returns null for a scope without limits. */
export type LimitsOption = Limits | ((scope: string) => Limits | null)

const WHERE = 'createEngine: limits'

/** Returns what an engine asks for the limits of a scope; null where there are none. */
export function limitsOf(option: LimitsOption | undefined): ((scope: string) => ScopeLimit | null) | null {
  if (option === undefined) return null
  if (typeof option !== 'function') {
    const limit = checked(option, WHERE)
    return () => limit
  }
  return (scope) => {
    const given = asked(option, scope)
    return given === null ? null : checked(given, 'what limits returned')
  }
}

function asked(option: (scope: string) => Limits | null, scope: string): Limits | null {
  try {
    return option(scope)
  } catch (cause) {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      'createEngine: limits threw. It has to return the limits of any scope, or null for none.',
      { cause },
    )
  }
}

function checked(limits: Limits, where: string): ScopeLimit {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where }
  checkKnownOptions(owner, limits, ['newKeys', 'unfinished'])
  const { newKeys, unfinished } = limits
  checkWholeNumber(owner, 'unfinished', unfinished, 1, MAX_INT32)
  if (newKeys !== undefined) {
    checkKnownOptions({ ...owner, where: `${where}: newKeys` }, newKeys, ['max', 'perMs'])
    for (const name of ['max', 'perMs'] as const)
      if (newKeys[name] === undefined)
        throw invalidOption(owner, `newKeys.${name}`, newKeys[name], 'a whole number of 1 or more')
    checkWholeNumber(owner, 'newKeys.max', newKeys.max, 1, MAX_INT32)
    checkWholeNumber(owner, 'newKeys.perMs', newKeys.perMs, 1, MAX_DURATION_MS)
  }
  return { newKeys: newKeys ?? null, unfinished: unfinished ?? null }
}
