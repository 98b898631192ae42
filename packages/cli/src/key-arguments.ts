import type { KeyName } from '@pawl/core'
import { CliError } from './cli-error.js'
import type { Argument } from './command.js'
import { shellWord } from './render/safe-text.js'

/** What names a key on the command line. */
export const keyArguments = [
  { name: 'scope', count: 'one' },
  { name: 'key', count: 'one' },
] as const satisfies readonly Argument[]

export function keyNameOf(args: readonly string[]): KeyName {
  const [scope = '', key = ''] = args
  return { scope, key }
}

export function noSuchKey({ scope, key }: KeyName): CliError {
  return new CliError('not_found', `There is no key ${shellWord(key)} in scope ${shellWord(scope)}.`)
}
