import type { Argument, Command, Option, Options } from '../command.js'
import { commonOptions } from '../common-options.js'
import { EXIT, type ExitCode } from '../exit-code.js'
import type { Paint } from './paint.js'

/** The longest line of help, in columns: narrower than most terminals, wider than most newspapers. */
const WIDTH = 100
const INDENT = '  '

/** What the codes mean everywhere. */
const EXIT_MEANINGS: Readonly<Record<ExitCode, string>> = {
  [EXIT.ok]: 'done, and nothing is wrong',
  [EXIT.failed]: 'it did not work: database not available or not migrated, no such key, refused',
  [EXIT.usage]: 'wrong usage; nothing was tried',
  [EXIT.findings]: 'it worked, and there is something to look at',
}

export function renderHelp(commands: readonly Command[], paint: Paint): readonly string[] {
  return [
    'Usage: pawl <command> [options]',
    '',
    'Shows the requests that Pawl runs, and intervenes in them.',
    ...section('Commands', definitions(commands.map(({ name, summary }) => [name, summary])), paint),
    ...section('Options of every command', renderOptions(commonOptions), paint),
    ...section('Exit codes', definitions(Object.entries(EXIT_MEANINGS)), paint),
    '',
    'pawl help <command> has the details. pawl --version prints the version. Results go to standard output,',
    'errors to standard error: one message, or with --json {"error":{"code","message"}}.',
  ]
}

export function renderCommandHelp(command: Command, paint: Paint): readonly string[] {
  const { [EXIT.findings]: _onlyOfSome, ...ofAll } = EXIT_MEANINGS
  const exits = Object.entries({ ...ofAll, ...command.exits })
  return [
    ...usagesOf(command).map((usage, at) => `${at === 0 ? 'Usage:' : '      '} ${usage}`),
    '',
    ...[`${command.name}: ${command.summary}.`, ...command.details].flatMap((text) => wrap(text, WIDTH)),
    ...section('Options', renderOptions({ ...command.options, ...commonOptions }), paint),
    ...section('Exit codes', definitions(exits), paint),
  ]
}

/** A line for each way: `pawl show <scope> <key> [options]`, and `pawl show --id UUID [options]`. */
export function usagesOf({ name, args, options }: Command): readonly string[] {
  const needed = Object.entries(options).flatMap(([option, spec]) =>
    spec.kind === 'value' && spec.required ? [optionText(option, spec)] : [],
  )
  const usage = (words: readonly string[]) => ['pawl', name, ...words, ...needed, '[options]'].join(' ')
  const instead = Object.entries(options).filter(([option]) =>
    args.some(({ unless = [] }) => unless.includes(option)),
  )
  return [
    usage(args.map(argumentText)),
    ...instead.map(([option, spec]) => usage([optionText(option, spec)])),
  ]
}

function argumentText({ name, count }: Argument): string {
  switch (count) {
    case 'one':
      return `<${name}>`
    case 'optional':
      return `[${name}]`
    case 'many':
      return `[${name}…]`
  }
}

function renderOptions(options: Options): readonly string[] {
  return definitions(
    Object.entries(options).map(([name, option]) => [optionText(name, option), option.about]),
  )
}

function optionText(name: string, option: Option): string {
  return option.kind === 'flag' ? `--${name}` : `--${name} ${option.placeholder}`
}

function section(title: string, lines: readonly string[], paint: Paint): readonly string[] {
  return ['', paint('bold', title), ...lines]
}

function definitions(pairs: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...pairs.map(([term]) => term.length))
  const margin = INDENT.length + width + 2
  return pairs.flatMap(([term, about]) => {
    const [first = '', ...rest] = wrap(about, WIDTH - margin)
    return [`${INDENT}${term.padEnd(width)}  ${first}`, ...rest.map((line) => ' '.repeat(margin) + line)]
  })
}

function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
