import type { PoolConfig } from 'pg'
import type { Trial } from '../actors/trial.js'
import { KitError } from '../kit-error.js'
import { POOL_SIZE } from '../limits.js'
import type { Children } from './children.js'
import type { ChildStart } from './messages.js'
import { isSendable, sendableOptions } from './sendable.js'

/** Returns what a child has to know to send the trial's request as an actor of this name. */
export async function childStart(
  { environment, scope, key }: Trial,
  actor: string,
  { options, providerUrl }: Children,
  dieAt: string | null,
): Promise<ChildStart> {
  const { database, request, engine } = environment
  const { input, fingerprint, bindTo } = request
  if (!isSendable(input)) {
    throw new KitError(
      'PAWL_KIT_CHILD',
      'request.input cannot be sent to another process: it contains more than JSON, such as a function. Pass plain data.',
    )
  }
  return {
    module: options.module,
    providerUrl,
    pool: sendableOptions(await resolved(database.poolConfig(actor, { max: POOL_SIZE }))),
    engine: sendableOptions(engine),
    schema: database.pawlSchema,
    request: {
      scope,
      key,
      input,
      ...(fingerprint === undefined ? {} : { fingerprint }),
      ...(bindTo === undefined ? {} : { bindTo }),
    },
    dieAt,
  }
}

/** A password may be a function that is called for each connection. */
async function resolved(config: PoolConfig): Promise<PoolConfig> {
  const { password } = config
  return typeof password === 'function' ? { ...config, password: await password() } : config
}
