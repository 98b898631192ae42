import type { PoolConfig } from 'pg'
import type { Scene } from '../cast/scene.js'
import { KitError } from '../kit-error.js'
import { POOL_SIZE } from '../limits.js'
import type { Children } from './children.js'
import type { ChildStart } from './messages.js'
import { sendable, travels } from './travels.js'

/** What a child has to know to send the scene's request as an actor of this name. */
export async function childStart(
  { theatre, scope, key }: Scene,
  actor: string,
  { options, providerUrl }: Children,
  dieAt: string | null,
): Promise<ChildStart> {
  const { database, request, engine } = theatre
  const { input, fingerprint } = request
  if (!travels(input)) {
    throw new KitError(
      'PAWL_KIT_CHILD',
      'request.input cannot be sent to another process: it holds more than JSON, such as a function. Give crashKit plain data.',
    )
  }
  return {
    module: options.module,
    providerUrl,
    pool: sendable(await resolved(database.poolConfig(actor, { max: POOL_SIZE }))),
    engine: sendable(engine),
    schema: database.pawlSchema,
    request: { scope, key, input, ...(fingerprint === undefined ? {} : { fingerprint }) },
    dieAt,
  }
}

/** A password may be asked for anew for each connection. */
async function resolved(config: PoolConfig): Promise<PoolConfig> {
  const { password } = config
  return typeof password === 'function' ? { ...config, password: await password() } : config
}
