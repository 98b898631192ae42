import { PawlError } from '../errors.js'
import { type AnyPipeline, definitionOf, type PipelineDefinition, type UpgradeFrom } from './pipeline.js'

/** What a row pins. */
export interface PinnedDefinition {
  readonly pipeline: string
  readonly version: number
  readonly definitionHash: string
}

/** The definition that a row may run under here. */
export type Resolution =
  | { readonly type: 'registered'; readonly definition: PipelineDefinition }
  | { readonly type: 'upgrade'; readonly definition: PipelineDefinition; readonly upgrade: UpgradeFrom }
  | { readonly type: 'unknown'; readonly detail: string }

/** The definitions this engine may run, found by what a row pins. */
export class Registry {
  readonly definitions: readonly PipelineDefinition[]

  constructor(pipelines: readonly AnyPipeline<never>[]) {
    this.definitions = pipelines.map(readDefinition)
    for (const [index, definition] of this.definitions.entries()) {
      const twin = this.definitions.findIndex((other) => sameVersion(other, definition))
      if (twin !== index) {
        throw new PawlError(
          'PAWL_INVALID_OPTION',
          `createEngine: pipelines has '${definition.name}' version ${definition.version} twice; raise the version of one.`,
        )
      }
    }
  }

  has(definition: PipelineDefinition): boolean {
    return this.definitions.includes(definition)
  }

  /** A row runs under its own version, or under one that declares how to continue from it, or not at all. */
  resolve(row: PinnedDefinition): Resolution {
    const sameName = this.definitions.filter((definition) => definition.name === row.pipeline)
    const own = sameName.find((definition) => definition.version === row.version)
    if (own !== undefined) {
      if (own.hash === row.definitionHash) return { type: 'registered', definition: own }
      return {
        type: 'unknown',
        detail: `version ${row.version} is registered with another definition: raise its version`,
      }
    }
    for (const definition of sameName) {
      const upgrade = definition.upgradesFrom.find((candidate) => candidate.version === row.version)
      if (upgrade !== undefined) return { type: 'upgrade', definition, upgrade }
    }
    return { type: 'unknown', detail: `version ${row.version} is not registered here` }
  }
}

/** Where a row of an older version stands under the new one; null where the upgrade does not say. */
export function upgradePoint(
  definition: PipelineDefinition,
  upgrade: UpgradeFrom,
  point: string,
): string | null {
  const { points = {} } = upgrade
  // A phase may be called `constructor`, and every object has a member of that name.
  const mapped = Object.hasOwn(points, point) ? points[point] : point
  const known = mapped === 'started' || definition.phases.some((phase) => phase.name === mapped)
  return known && mapped !== undefined ? mapped : null
}

function readDefinition(pipeline: AnyPipeline<never>): PipelineDefinition {
  const definition = (pipeline as Partial<AnyPipeline<never>> | null | undefined)?.[definitionOf]
  if (definition === undefined) {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      'createEngine: pipelines holds something that is not a pipeline. A builder becomes one when you call its finish().',
    )
  }
  return definition
}

function sameVersion(a: PipelineDefinition, b: PipelineDefinition): boolean {
  return a.name === b.name && a.version === b.version
}
