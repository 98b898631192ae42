import { readFile } from 'node:fs/promises'
import type { Context, Report } from './command.js'
import { allCommands } from './commands/all.js'
import { checkUrl, withDatabase } from './database.js'
import { describeError } from './describe-error.js'
import { EXIT, type ExitCode } from './exit-code.js'
import { parseCommandLine, type Wish } from './parse-command-line.js'
import { renderCommandHelp, renderHelp } from './render/help.js'
import { createPaint, type Paint, wantsColour } from './render/paint.js'
import { safeJson, safeText } from './render/safe-text.js'
import { DEFAULT_SCHEMA } from './schema-option.js'
import { tellError } from './tell-error.js'

/** Where text goes: `process.stdout`, or something that collects it. */
export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
}

/** The environment of a run. */
export interface Surroundings {
  readonly stdout: Output
  readonly stderr: Output
  /** `DATABASE_URL`, `PAWL_ACTOR`, `PAWL_HASH_SECRET`, `PAWL_PROTECT_KEYS`, `NO_COLOR` and `TERM` are read. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Paths of modules are relative to it. */
  readonly cwd: string
  /** Resolves when a command that stays, such as `console`, is to end. Default: it ends at once. */
  readonly untilStopped?: () => Promise<void>
}

/**
 * Runs the tool with the arguments after its name, and returns the exit code. Never throws.
 *
 * @example
 * process.exitCode = await run(['status'], { stdout, stderr, env, cwd: process.cwd() })
 */
export async function run(argv: readonly string[], surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr, env } = surroundings
  const isJson = wantsJson(argv)
  let databaseUrl = env['DATABASE_URL']
  let schema = DEFAULT_SCHEMA
  try {
    const wish = parseCommandLine(argv, allCommands)
    if (wish.type === 'run') {
      databaseUrl = wish.common['database-url'] ?? databaseUrl
      schema = wish.common.schema ?? schema
    }
    const report = await fulfil(wish, { ...surroundings, databaseUrl, schema, isJson })
    if (!isJson) stdout.write(report.lines.map((line) => `${line}\n`).join(''))
    else if (report.json !== undefined) stdout.write(`${safeJson(report.json)}\n`)
    if (report.error !== undefined) tellError(report.error, { stderr, env, databaseUrl, isJson })
    return report.exit
  } catch (error) {
    const described = describeError(error, schema)
    tellError(described, { stderr, env, databaseUrl, isJson })
    return described.code === 'usage' ? EXIT.usage : EXIT.failed
  }
}

interface Setting extends Surroundings {
  readonly databaseUrl: string | undefined
  readonly schema: string
  readonly isJson: boolean
}

async function fulfil(wish: Wish, setting: Setting): Promise<Report> {
  const paint = createPaint(wantsColour(setting.stdout, setting.env))
  switch (wish.type) {
    case 'version': {
      const version = await readVersion()
      return { exit: EXIT.ok, lines: [version], json: { version } }
    }
    case 'help': {
      const { command } = wish
      const lines = command === null ? renderHelp(allCommands, paint) : renderCommandHelp(command, paint)
      return { exit: EXIT.ok, lines, json: { help: lines.join('\n') } }
    }
    case 'run': {
      const { command, args, options } = wish
      return command.run({ args, options: options as never }, contextOf(setting, paint))
    }
  }
}

function contextOf(setting: Setting, paint: Paint): Context {
  const { env, cwd, schema, databaseUrl, stdout, stderr, isJson } = setting
  return {
    env,
    cwd,
    schema,
    paint,
    isTerminal: stdout.isTTY === true,
    commands: allCommands,
    withDatabase: (work) =>
      withDatabase(
        databaseUrl,
        { schema, hashSecret: env['PAWL_HASH_SECRET'], protectKeys: env['PAWL_PROTECT_KEYS'] },
        work,
      ),
    databaseUrl: () => checkUrl(databaseUrl),
    tell: (line) => void (isJson || stderr.write(`${safeText(line)}\n`)),
    print: (line, json) => void stdout.write(isJson ? `${JSON.stringify(json)}\n` : `${line}\n`),
    untilStopped: setting.untilStopped ?? (() => Promise.resolve()),
  }
}

/** Read before the rest is parsed: what is wrong with the rest has to be reported in the right form, too. */
export function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--')
  return argv.slice(0, end === -1 ? argv.length : end).includes('--json')
}

async function readVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
