import { PawlError } from '@pawl/core'
import { MAX_SCOPE_LENGTH } from './limits.js'

/** What `String(user?.id)` returns when there is no user: everybody without one would share their keys. */
const NOBODY = new Set(['undefined', 'null', 'NaN', '[object Object]'])

/** Returns the owner of the key, or throws an error that tells the developer why there is none. */
export function checkScope(scope: unknown, route: string): string {
  if (scope === undefined || scope === null || scope === '') {
    throw noScope(
      route,
      'nothing, so nobody owns the key. Authenticate the request in a hook, and refuse it there if that fails',
    )
  }
  if (typeof scope !== 'string')
    throw noScope(route, `a value of type ${typeof scope}; it has to be a string`)
  if (NOBODY.has(scope)) {
    throw noScope(
      route,
      `'${scope}', which is what String() makes of a missing value. Return undefined where nobody is authenticated`,
    )
  }
  if (scope.length > MAX_SCOPE_LENGTH)
    throw noScope(route, `${scope.length} characters; the maximum is ${MAX_SCOPE_LENGTH}`)
  return scope
}

function noScope(route: string, told: string): PawlError {
  return new PawlError('PAWL_NO_SCOPE', `The scope function returned ${told} (${route}).`)
}
