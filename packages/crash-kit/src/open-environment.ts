import type { EngineOptions, Pipeline } from '@pawl/core'
import { readDefinition } from '@pawl/core/internal'
import { Pools } from './actors/pools.js'
import type { Environment } from './actors/environment.js'
import { KitDatabase, type KitLayout } from './database/kit-database.js'
import type { PipelineShape } from './history.js'
import type { CrashKitOptions } from './kit-options.js'
import { checkChildOptions } from './process/child-options.js'
import { Children } from './process/children.js'
import { controlsOf, type FakeProvider } from './provider/fake-provider.js'

/** An environment, and how to close it. */
export interface OpenEnvironment {
  readonly environment: Environment
  /** Runs attempts in processes of their own; null when crashKit was given no `child`. */
  readonly children: Children | null
  close(): Promise<void>
}

/** How many open kits use a provider. The last one closes it. */
const users = new WeakMap<FakeProvider, number>()

async function joinProvider(provider: FakeProvider): Promise<void> {
  users.set(provider, (users.get(provider) ?? 0) + 1)
  await provider.start()
}

async function leaveProvider(provider: FakeProvider): Promise<void> {
  const left = (users.get(provider) ?? 1) - 1
  users.set(provider, left)
  if (left === 0) await provider.close()
}

/** The default of core. */
const DEFAULT_MAX_ATTEMPTS = 10

export async function openEnvironment(options: CrashKitOptions<never, never>): Promise<OpenEnvironment> {
  const { pool = null, provider, request, prepare = null } = options
  if (provider !== undefined) await joinProvider(provider)
  const controls = provider === undefined ? null : controlsOf(provider)
  const database = await KitDatabase.open({
    pool,
    prepare,
    layout: layoutOf(options),
    protection: options.engine?.protect ?? null,
  })
  await database.spreadSequences()
  const pools = new Pools(database)
  const children =
    options.child === undefined ? null : new Children(checkChildOptions(options.child), provider?.url ?? null)
  const rejections: unknown[] = []
  const onRejection = (reason: unknown): void => void rejections.push(reason)
  process.on('unhandledRejection', onRejection)
  const pipeline = () => (typeof options.pipeline === 'function' ? options.pipeline() : options.pipeline)
  const engine = (options.engine ?? {}) as Partial<EngineOptions<never>>
  return {
    environment: {
      database,
      provider: controls,
      pools,
      pipeline,
      shape: shapeOf(pipeline(), engine),
      engine,
      request,
      rejections,
    },
    children,
    async close() {
      process.off('unhandledRejection', onRejection)
      await children?.close()
      await pools.close()
      await database.close()
      if (provider !== undefined) await leaveProvider(provider)
    },
  }
}

function layoutOf({ layout, partitions }: CrashKitOptions<never, never>): KitLayout {
  return { ...(layout !== undefined && { layout }), ...(partitions !== undefined && { partitions }) }
}

/** The default is a day, and no fault makes a request that old. */
function maxAgeOf(given: number | undefined): Pick<PipelineShape, 'maxAgeMs'> {
  return given === undefined ? {} : { maxAgeMs: given }
}

function shapeOf(pipeline: Pipeline<never, never>, engine: Partial<EngineOptions<never>>): PipelineShape {
  const { name, version, phases, settings } = readDefinition(pipeline)
  return {
    name,
    version,
    points: ['started', ...phases.map((phase) => phase.name), 'finished'],
    foreign: phases.flatMap((phase) =>
      phase.kind === 'foreign' ? [{ phase: phase.name, guarantee: phase.guarantee }] : [],
    ),
    maxAttempts: settings.maxAttempts ?? engine.defaults?.maxAttempts ?? DEFAULT_MAX_ATTEMPTS,
    ...maxAgeOf(settings.maxAgeMs ?? engine.defaults?.maxAgeMs),
    ...(engine.afterExpiry === 'run' && { runsAgain: true }),
    ...((settings.commits ?? engine.defaults?.commits) === 'fewest' && { inLegs: true }),
  }
}
