import type { OptionOwner } from '../check-option.js'
import { PawlError } from '../errors.js'
import {
  checkLimits,
  type Limits,
  type LimitsOf,
  type LimitsOption,
  type PipelineLimitsOption,
} from '../pipeline/limits-option.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { ResolvedSettings } from '../pipeline/resolved-settings.js'
import type { Rate } from '../storage/usage/bucket.js'
import type { ScopeLimit, ScopeLimits } from '../storage/usage/scope-limit.js'

/** What the scopes of an engine may have: by its own option, and by those of its pipelines. */
export class LimitsOfScopes {
  readonly #settings: ResolvedSettings
  readonly #ofEngine: Asked | null
  readonly #ofPipelines = new Map<PipelineDefinition, Asked | null>()

  constructor(option: LimitsOption | undefined, settings: ResolvedSettings) {
    this.#settings = settings
    this.#ofEngine = askable(option, 'engine', 'createEngine')
  }

  /** Whether anything may be limited at all. Atomic handlers are known once they have had a request. */
  get areOnAnywhere(): boolean {
    return this.#ofEngine !== null || this.#settings.all.some((each) => each.limits !== undefined)
  }

  /** Whether anything may be limited for keys of this pipeline. */
  areOn(definition: PipelineDefinition): boolean {
    return this.#ofEngine !== null || this.#ofPipeline(definition) !== null
  }

  /** What a new key is reserved under; null where nothing is limited. */
  of(scope: string, definition: PipelineDefinition): ScopeLimits | null {
    const ofScope = this.#ofEngine?.(scope).limit ?? null
    const ofPipeline = this.#ofPipeline(definition)?.(scope).limit ?? null
    return ofScope === null && ofPipeline === null ? null : { ofScope, ofPipeline }
  }

  /** How often keys of the scope may be looked up; null where that is not limited. */
  lookupsOf(scope: string): Rate | null {
    return this.#ofEngine?.(scope).lookups ?? null
  }

  #ofPipeline(definition: PipelineDefinition): Asked | null {
    const known = this.#ofPipelines.get(definition)
    if (known !== undefined) return known
    const { limits } = this.#settings.pipeline(definition)
    const asks = askable(limits, 'pipeline', `pipeline '${definition.name}'`)
    this.#ofPipelines.set(definition, asks)
    return asks
  }
}

/** What a scope may have, copied: an object may change after it was checked, or be one that the function uses again. */
interface Read {
  readonly limit: ScopeLimit | null
  readonly lookups: Rate | null
}

type Asked = (scope: string) => Read

const NOTHING: Read = { limit: null, lookups: null }

function askable(
  option: LimitsOption | PipelineLimitsOption | undefined,
  of: LimitsOf,
  where: string,
): Asked | null {
  if (option === undefined) return null
  if (typeof option !== 'function') {
    // It was checked with the other options.
    const read = readLimits(option)
    return () => read
  }
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where }
  return (scope) => {
    const given = asked(option, scope, where)
    if (given === null) return NOTHING
    checkLimits(owner, 'what limits returned', of, given)
    return readLimits(given)
  }
}

function asked(option: (scope: string) => Limits | null, scope: string, where: string): Limits | null {
  try {
    return option(scope)
  } catch (cause) {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      `${where}: limits threw. It has to return the limits of any scope, or null for none.`,
      { cause },
    )
  }
}

function readLimits({ newKeys, unfinished, storedBytes, lookups }: Limits): Read {
  const isLimited = newKeys !== undefined || unfinished !== undefined || storedBytes !== undefined
  const limit = {
    newKeys: copied(newKeys),
    unfinished: unfinished ?? null,
    storedBytes: storedBytes ?? null,
  }
  return { limit: isLimited ? limit : null, lookups: copied(lookups) }
}

const copied = (rate: Rate | undefined): Rate | null => (rate === undefined ? null : { ...rate })
