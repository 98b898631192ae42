import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type AnyPipeline, safeError } from '@pawl/core'
import { CliError } from './cli-error.js'

/** Loads a module of the user by its path. */
export async function loadModule(path: string, cwd: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return (await import(pathToFileURL(resolve(cwd, path)).href)) as Record<string, unknown>
  } catch (error) {
    const reason = safeError(error).message
    const hint = /\.[cm]?tsx?$/.test(path)
      ? ' Name the compiled file, or run with a loader for TypeScript.'
      : ''
    throw new CliError('module', `Module '${path}' cannot be loaded: ${reason}${hint}`, { cause: error })
  }
}

/** Every pipeline that a module exports: on its own, in a list, or in the options of an engine. */
export function pipelinesOf(
  module: Readonly<Record<string, unknown>>,
  path: string,
): readonly AnyPipeline<never>[] {
  const found = new Set(Object.values(module).flatMap((exported) => collect(exported)))
  if (found.size > 0) return [...found].toSorted(byNameAndVersion)
  throw new CliError(
    'module',
    `Module '${path}' exports no pipeline. Export each on its own, in a list, or in an object with a list 'pipelines'.`,
  )
}

/** Exports come in the order of their names, lists in their own order: neither can be relied on. */
function byNameAndVersion(a: AnyPipeline<never>, b: AnyPipeline<never>): number {
  return a.name.localeCompare(b.name, 'en') || a.version - b.version
}

function collect(exported: unknown): AnyPipeline<never>[] {
  if (isPipeline(exported)) return [exported]
  if (Array.isArray(exported)) return exported.filter(isPipeline)
  const { pipelines } = (exported ?? {}) as { readonly pipelines?: unknown }
  return Array.isArray(pipelines) ? pipelines.filter(isPipeline) : []
}

/** Judged by its members, not by where it comes from: the module may have its own copy of core. */
function isPipeline(candidate: unknown): candidate is AnyPipeline<never> {
  const { name, version, diagram } = (candidate ?? {}) as Record<string, unknown>
  return typeof name === 'string' && typeof version === 'number' && typeof diagram === 'function'
}
