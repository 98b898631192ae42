import type { EngineOptions, Pipeline } from '@pawl/core'
import type { ClientBase, PoolConfig } from 'pg'
import { KitError } from '../kit-error.js'
import { childContext } from './child-context.js'
import type { ChildStart, Sent } from './messages.js'

/** What a child's module exports, together with what the kit sent. */
export interface LoadedModule {
  readonly pipeline: Pipeline<never, never>
  readonly pool: PoolConfig
  readonly engine: Partial<EngineOptions<never>>
}

/** Imports the module. If something is wrong inside it, Node prints that. */
export async function loadModule(start: ChildStart): Promise<LoadedModule> {
  const module = (await import(start.module)) as {
    readonly default?: unknown
    readonly pool?: PoolConfig
    readonly engine?: Partial<EngineOptions<never>>
  }
  return {
    pool: keepSearchPath(together('pool', start.pool, module.pool ?? {})),
    engine: together('engine', start.engine, module.engine ?? {}),
    pipeline: await pipelineOf(module.default, start.providerUrl),
  }
}

async function pipelineOf(given: unknown, providerUrl: string | null): Promise<Pipeline<never, never>> {
  const make = given as (context: unknown) => unknown
  const made = typeof given === 'function' ? await make(childContext(providerUrl)) : given
  const isPipeline =
    typeof (made as Partial<Pipeline<never, never>> | null | undefined)?.describe === 'function'
  if (isPipeline) return made as Pipeline<never, never>
  const found =
    given === undefined ? 'there is none' : `it ${typeof given === 'function' ? 'returns' : 'is'} none`
  throw new KitError(
    'PAWL_KIT_CHILD',
    `Its default export has to be a pipeline, or a function that returns one, but ${found}. Write: export default createRide`,
  )
}

/** What the kit was given wins, because its own actors, which recover the request, have that too. */
function together<Options extends object>(
  name: 'pool' | 'engine',
  { options, leftOut }: Sent<Options>,
  own: Partial<Options>,
): Options {
  const missing = leftOut.filter((option) => !(option in own))
  if (missing.length > 0) {
    throw new KitError(
      'PAWL_KIT_CHILD',
      `${missing.map((option) => `${name}.${option}`).join(' and ')} cannot be sent to another process, because it ` +
        `contains functions. Export it from the module, too: export const ${name} = { ${missing.join(', ')} }`,
    )
  }
  return { ...own, ...options } as Options
}

/** Keeps the kit's schemas first, whatever a hook of the application sets, as for the kit's own connections. */
function keepSearchPath(pool: PoolConfig): PoolConfig {
  // The pool awaits what it returns, though its type does not say so.
  const onConnect: ((client: ClientBase) => unknown) | undefined = pool.onConnect
  if (onConnect === undefined) return pool
  const hook: (client: ClientBase) => unknown = async (client) => {
    const { rows } = await client.query<{ search_path: string }>('SHOW search_path')
    await onConnect(client)
    await client.query(`SELECT set_config('search_path', $1, false)`, [rows[0]?.search_path])
  }
  return { ...pool, onConnect: hook }
}
