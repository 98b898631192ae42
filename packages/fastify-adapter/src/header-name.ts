import { invalidOption, type OptionOwner } from '@pawl/core/internal'

const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]+$/

/** Checks the name of a header. Returns it in lower case, as Node.js names headers. */
export function readHeaderName(owner: OptionOwner, option: string, name: unknown): string {
  const lower = typeof name === 'string' ? name.toLowerCase() : ''
  if (!TOKEN.test(lower)) throw invalidOption(owner, option, name, 'the name of a header')
  return lower
}
