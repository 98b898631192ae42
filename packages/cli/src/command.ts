import type { Database } from './database.js'
import type { DescribedError } from './describe-error.js'
import type { ExitCode } from './exit-code.js'
import type { Paint } from './render/paint.js'

// Aliases, not interfaces: the compiler writes them out where options are exported.
/** An option that is present or not. */
type Flag = { readonly kind: 'flag'; readonly about: string }

/** An option with a value. */
type Value<T, Required extends boolean> = {
  readonly kind: 'value'
  /** Stands for the value in the help. */
  readonly placeholder: string
  readonly about: string
  /** Throws a usage error that says what the value has to be like. */
  readonly parse: (text: string) => T
  readonly required: Required
}

/** An option that may be given several times. */
type Values<T> = {
  readonly kind: 'values'
  readonly placeholder: string
  readonly about: string
  readonly parse: (text: string) => T
}

export type Option = Flag | Value<unknown, boolean> | Values<unknown>
export type Options = Readonly<Record<string, Option>>

/** What was given, by the option's name. */
export type Given<O extends Options> = {
  readonly [Name in keyof O]: O[Name] extends Flag
    ? boolean
    : O[Name] extends Values<infer T>
      ? readonly T[]
      : O[Name] extends Value<infer T, infer Required>
        ? Required extends true
          ? T
          : T | undefined
        : never
}

export function flag(about: string): Flag {
  return { kind: 'flag', about }
}

export function value<T>(placeholder: string, parse: (text: string) => T, about: string): Value<T, false> {
  return { kind: 'value', placeholder, parse, about, required: false }
}

export function required<T>(placeholder: string, parse: (text: string) => T, about: string): Value<T, true> {
  return { kind: 'value', placeholder, parse, about, required: true }
}

export function values<T>(placeholder: string, parse: (text: string) => T, about: string): Values<T> {
  return { kind: 'values', placeholder, parse, about }
}

/** An argument that is known by its place. */
export interface Argument {
  readonly name: string
  /** `one`: it has to be given. `many`: any number of them, for the last argument only. */
  readonly count: 'one' | 'optional' | 'many'
  /** The options that can be given in its place, but not together with it. */
  readonly unless?: readonly string[]
}

/** What a command has to say: for people, and for machines. The runner prints one of the two. */
export interface Report {
  readonly exit: ExitCode
  readonly lines: readonly string[]
  /** Undefined where everything has been printed already. */
  readonly json: unknown
  /** An error that is printed in addition to the report. */
  readonly error?: DescribedError
}

/** What a command works with. */
export interface Context {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Paths of modules are relative to it. */
  readonly cwd: string
  readonly schema: string
  readonly paint: Paint
  /** Whether a person reads the output, and not a program. */
  readonly isTerminal: boolean
  /** All commands, for the help. */
  readonly commands: readonly Command[]
  /** The database, open for as long as `work` runs. */
  readonly withDatabase: <T>(work: (database: Database) => Promise<T>) => Promise<T>
  /** Where the database is, for what opens it by itself. Throws a usage error where nobody has said so. */
  readonly databaseUrl: () => string
  /** Reports progress, separately from the report. */
  readonly tell: (line: string) => void
  /** Prints at once what a command that stays has to say: the line, or with `--json` the value. */
  readonly print: (line: string, json: unknown) => void
  /** Resolves when somebody wants the command to end. */
  readonly untilStopped: () => Promise<void>
}

/** What a command was called with. */
interface Call<O extends Options> {
  readonly args: readonly string[]
  readonly options: Given<O>
}

/** A command: help and parsing both read this, so that they cannot differ. */
export interface Command<O extends Options = Options> {
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  readonly args: readonly Argument[]
  readonly options: O
  /** What it does beyond the summary, and what to know. */
  readonly details: readonly string[]
  /** What its exit codes mean, where they mean more than they do everywhere. */
  readonly exits: Readonly<Partial<Record<ExitCode, string>>>
  run(call: Call<O>, context: Context): Promise<Report>
}

/** Keeps the types of a command's options for its `run`, and forgets them for the list. */
export function defineCommand<const O extends Options>(command: Command<O>): Command {
  return command
}
