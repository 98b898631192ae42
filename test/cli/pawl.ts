import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { run } from '@pawl/cli'
import type { TestDatabase } from '../support/test-database.js'

/** The tool as it is installed, from the build. */
const BIN = fileURLToPath(new URL('../../packages/cli/bin/pawl.js', import.meta.url))
const FIXTURES = fileURLToPath(new URL('fixtures', import.meta.url))

/** How a run ended, and what it said. */
export interface End {
  readonly exit: number
  readonly out: string
  readonly err: string
}

type Env = Readonly<Record<string, string | undefined>>

/** Runs the tool in this process. */
export async function pawl(
  argv: readonly string[],
  { env = {}, isTTY = false }: { readonly env?: Env; readonly isTTY?: boolean } = {},
): Promise<End> {
  const said = { out: '', err: '' }
  const stdout = { isTTY, write: (text: string) => void (said.out += text) }
  const stderr = { isTTY, write: (text: string) => void (said.err += text) }
  const exit = await run(argv, { stdout, stderr, env, cwd: FIXTURES })
  return { exit, ...said }
}

/** The same, on the schema of a test. */
export function pawlOn(database: TestDatabase, ...argv: string[]): Promise<End> {
  return pawl([...argv.slice(0, 1), '--schema', database.schema, ...argv.slice(1)], { env: envOf(database) })
}

export function envOf({ url }: TestDatabase): Env {
  return { DATABASE_URL: url, PAWL_ACTOR: 'anna@ops-1' }
}

/** The tool as a process of its own. */
export function spawnPawl(argv: readonly string[], env: Env): ChildProcessWithoutNullStreams {
  const { PATH } = process.env
  return spawn(process.execPath, [BIN, ...argv], { env: { PATH, ...env }, cwd: FIXTURES })
}

/** Runs it to its end, with its standard output going to an open file. */
export async function pawlInto(file: number, argv: readonly string[]): Promise<Omit<End, 'out'>> {
  const { PATH } = process.env
  const child = spawn(process.execPath, [BIN, ...argv], { env: { PATH }, stdio: ['ignore', file, 'pipe'] })
  closeSync(file)
  let err = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [exit] = (await once(child, 'close')) as [number]
  return { exit, err }
}

/** Runs it to its end. */
export async function pawlProcess(argv: readonly string[], env: Env): Promise<End> {
  const child = spawnPawl(argv, env)
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text))
  const [exit] = (await once(child, 'close')) as [number]
  return { exit, ...said }
}
