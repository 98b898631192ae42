import type { FakeProvider } from '../provider/fake-provider.js'
import { KitError } from '../kit-error.js'
import { checkFindOptions, checkSendOptions, findAt, sendTo } from '../provider/provider-client.js'

/**
 * What the default export of a child's module is called with, if it is a function.
 *
 * @example
 * export default ({ provider }: ChildContext) => createRideWith(provider)
 */
export interface ChildContext {
  /** Where the kit's provider listens, for a client of your own. */
  readonly providerUrl: string
  /** The kit's provider, as seen from another process. */
  readonly provider: Pick<FakeProvider, 'url' | 'send' | 'find'>
}

/** Returns the context. Without a provider, its members throw an error that says so. */
export function childContext(url: string | null): ChildContext {
  if (url === null) {
    return {
      get providerUrl(): never {
        throw noProvider('providerUrl')
      },
      get provider(): never {
        throw noProvider('provider')
      },
    }
  }
  return {
    providerUrl: url,
    provider: {
      url,
      async send(body, options = {}) {
        checkSendOptions(options)
        return sendTo(url, body, options)
      },
      async find(idempotencyKey, options = {}) {
        checkFindOptions(idempotencyKey, options)
        return findAt(url, idempotencyKey, options)
      },
    },
  }
}

function noProvider(name: string): KitError {
  return new KitError(
    'PAWL_KIT_CHILD',
    `There is no ${name}: crashKit was given no provider. Pass one, such as fakeProvider().`,
  )
}
