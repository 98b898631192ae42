import { PawlError } from '@pawl/core'

/** Returns what a key is bound to, or throws an error that tells the developer why there is nothing. */
export function checkBinding(bindTo: unknown, route: string): string {
  if (typeof bindTo === 'string' && bindTo !== '') return bindTo
  // Never shown, whatever it is.
  const got =
    bindTo === undefined || bindTo === null || bindTo === '' ? 'nothing' : `a value of type ${typeof bindTo}`
  throw new PawlError(
    'PAWL_NO_BINDING',
    `The bindTo function returned ${got} (${route}): it has to return a string. Refuse requests without one in a hook.`,
  )
}
