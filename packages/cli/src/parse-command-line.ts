import { parseArgs, type ParseArgsConfig } from 'node:util'
import { CliError, usageError } from './cli-error.js'
import type { Command, Option, Options } from './command.js'
import { type CommonOptions, commonOptions } from './common-options.js'
import { nearest } from './nearest.js'
import { usagesOf } from './render/help.js'
import { unknownCommand } from './unknown-command.js'

/** What the command line asks for. */
export type Wish =
  | { readonly type: 'version' }
  | { readonly type: 'help'; readonly command: Command | null }
  | {
      readonly type: 'run'
      readonly command: Command
      readonly args: readonly string[]
      readonly options: Readonly<Record<string, unknown>>
      readonly common: CommonOptions
    }

/** Reads the command line, according to what the commands declare. Throws usage errors. */
export function parseCommandLine(argv: readonly string[], commands: readonly Command[]): Wish {
  const { tokens } = tokenize(argv, { ...commonOptions, version: VERSION })
  const first = tokens.find((token) => token.kind === 'positional')
  if (first === undefined) {
    const given = new Set(tokens.map((token) => (token.kind === 'option' ? token.name : '')))
    if (given.has('version')) return { type: 'version' }
    if (given.has('help')) return { type: 'help', command: null }
    throw usageError('No command was given. pawl help lists them all.')
  }
  const command = commands.find(({ name }) => name === first.value)
  if (command === undefined) throw unknownCommand(first.value, commands)
  return parseCommand(command, argv.toSpliced(first.index, 1))
}

const VERSION = { kind: 'flag', about: 'print the version' } as const satisfies Option

function parseCommand(command: Command, argv: readonly string[]): Wish {
  const options: Options = { ...commonOptions, ...command.options }
  const { tokens } = tokenize(argv, options)
  const texts = new Map<string, string[]>()
  const args: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') args.push(token.value)
    if (token.kind === 'option') collect(texts, token, command, options)
  }
  if (texts.has('help')) return { type: 'help', command }
  checkCount(command, args, new Set(texts.keys()))
  const given = Object.fromEntries(
    Object.entries(options).map(([name, option]) => [name, valueOf(name, option, texts.get(name), command)]),
  )
  return { type: 'run', command, args, options: given, common: given as CommonOptions }
}

type Token = NonNullable<ReturnType<typeof parseArgs<ParseArgsConfig & { tokens: true }>>['tokens']>[number]
type OptionToken = Extract<Token, { kind: 'option' }>

/** Not strict, because Node's message about a wrong option does not name the right one. */
function tokenize(argv: readonly string[], options: Options): { readonly tokens: readonly Token[] } {
  const config = Object.entries(options).map(([name, { kind }]) => [
    name,
    { type: kind === 'flag' ? 'boolean' : 'string', ...(name === 'help' && { short: 'h' }) } as const,
  ])
  const parsed = parseArgs({
    args: [...argv],
    options: Object.fromEntries(config) as NonNullable<ParseArgsConfig['options']>,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  return { tokens: parsed.tokens }
}

function collect(texts: Map<string, string[]>, token: OptionToken, command: Command, options: Options): void {
  const { name, rawName, value, inlineValue } = token
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  if (option === undefined) throw unknownOption(rawName, command, options)
  const before = texts.get(name) ?? []
  if (option.kind === 'flag') {
    if (value !== undefined) throw usageError(`${rawName} takes no value.`)
  } else if (value === undefined || (!inlineValue && /^-./s.test(value))) {
    // An option in the place of a value means that the value was forgotten.
    throw usageError(
      `${rawName} needs a value: ${rawName} ${option.placeholder}, or ${rawName}=-… if it begins with a dash.`,
    )
  }
  if (option.kind !== 'values' && before.length > 0) throw usageError(`${rawName} was given twice.`)
  texts.set(name, [...before, value ?? ''])
}

function unknownOption(rawName: string, { name }: Command, options: Options): CliError {
  const near = nearest(rawName.replace(/^-+/, ''), Object.keys(options))
  const guess = near === null ? '' : ` Did you mean --${near}?`
  return usageError(`pawl ${name} has no option ${rawName}.${guess} See pawl help ${name}.`)
}

function valueOf(
  name: string,
  option: Option,
  texts: readonly string[] | undefined,
  command: Command,
): unknown {
  if (option.kind === 'flag') return texts !== undefined
  const parse = (text: string): unknown => {
    try {
      return option.parse(text)
    } catch (error) {
      throw error instanceof CliError ? usageError(`--${name}: ${error.message}`) : error
    }
  }
  if (option.kind === 'values') return (texts ?? []).map(parse)
  const [text] = texts ?? []
  if (text !== undefined) return parse(text)
  if (option.required) throw usageError(`--${name} is missing. ${usages(command)}`)
  return undefined
}

function checkCount(command: Command, args: readonly string[], given: ReadonlySet<string>): void {
  const instead = command.args.flatMap(({ unless = [] }) => unless).find((name) => given.has(name))
  if (instead !== undefined && args.length > 0) {
    throw usageError(`'${args[0]}' is one argument too many together with --${instead}. ${usages(command)}`)
  }
  const wanted = command.args.filter(({ unless = [] }) => !unless.some((name) => given.has(name)))
  const missing = wanted.find(({ count }, at) => count === 'one' && args[at] === undefined)
  if (missing !== undefined) throw usageError(`<${missing.name}> is missing. ${usages(command)}`)
  const takesMany = wanted.at(-1)?.count === 'many'
  const extra = args[wanted.length]
  if (extra !== undefined && !takesMany) {
    throw usageError(
      `'${extra}' is one argument too many; quote arguments that contain spaces. ${usages(command)}`,
    )
  }
}

function usages(command: Command): string {
  return `Usage: ${usagesOf(command).join(', or ')}`
}
