import { type CliError, usageError } from './cli-error.js'
import { nearest } from './nearest.js'

export function unknownCommand(name: string, commands: readonly { readonly name: string }[]): CliError {
  const near = nearest(
    name,
    commands.map((command) => command.name),
  )
  const guess = near === null ? '' : ` Did you mean ${near}?`
  return usageError(`There is no command '${name}'.${guess} pawl help lists them all.`)
}
