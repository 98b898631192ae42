import type { KeyReference } from '@pawl/core'
import { CliError } from './cli-error.js'
import { type Argument, value } from './command.js'
import { parseUuid } from './parse/value.js'
import { shellWord } from './render/safe-text.js'

/** The arguments that name a key. They are left out when --id is given. */
export const keyArguments = [
  { name: 'scope', count: 'one', unless: ['id'] },
  { name: 'key', count: 'one', unless: ['id'] },
] as const satisfies readonly Argument[]

/** The same where `--all` can name several. */
export const keyOrAllArguments = [
  { name: 'scope', count: 'one', unless: ['id', 'all'] },
  { name: 'key', count: 'one', unless: ['id', 'all'] },
] as const satisfies readonly Argument[]

/** Logs, dead jobs and the location of a 202 contain the id of a key, and not its scope and name. */
export const keyOptions = {
  id: value('UUID', parseUuid, 'the key by its id, instead of <scope> <key>'),
} as const

export function keyReferenceOf(
  args: readonly string[],
  { id }: { readonly id: string | undefined },
): KeyReference {
  if (id !== undefined) return { keyId: id }
  const [scope = '', key = ''] = args
  return { scope, key }
}

export function noSuchKey(of: KeyReference): CliError {
  const message =
    'keyId' in of
      ? `There is no key with the id ${of.keyId}. Finished keys are deleted some time after they expire.`
      : `There is no key ${shellWord(of.key)} in scope ${shellWord(of.scope)}.`
  return new CliError('not_found', message)
}
