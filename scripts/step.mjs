import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** A step failed: something to report, not a bug in these scripts. */
export class StepFailed extends Error {
  /** @type {string | undefined} */
  lastLine
}

/** Where the steps report: not standard output when a machine reads that. */
/** @type {NodeJS.WriteStream} */
let told = process.stdout

export function tellOnStderr() {
  told = process.stderr
}

/**
 * Runs one named step, and reports that it runs and how long it took.
 *
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(name, work) {
  told.write(`\n▸ ${name}\n`)
  const start = performance.now()
  const seconds = () => ((performance.now() - start) / 1000).toFixed(1)
  try {
    const result = await work()
    told.write(`✓ ${name} (${seconds()} s)\n`)
    return result
  } catch (error) {
    if (error instanceof StepFailed)
      error.message = `\n✗ ${name} failed after ${seconds()} s: ${error.message}`
    throw error
  }
}

/**
 * Waits for all of them, so that none runs on after a failure of another.
 *
 * @param {Promise<unknown>[]} steps
 */
export async function together(steps) {
  const ended = await Promise.allSettled(steps)
  const failed = ended.find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

/** Ctrl-C reaches the child as well. We outlive the child, to clean up after it. */
const outlive = () => {}

/**
 * Runs a program to its end, with our output as its output.
 *
 * @param {string} program
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, stdout?: NodeJS.WriteStream }} options `cwd` is relative to the root of
 *   the workspace
 */
export async function run(program, args, { cwd = '.', env = {}, stdout = told } = {}) {
  const child = spawn(program, args, {
    cwd: join(ROOT, cwd),
    env: { ...process.env, ...env },
    stdio: ['inherit', stdout, 'inherit'],
  })
  const passOn = () => child.kill('SIGTERM')
  process.on('SIGINT', outlive).on('SIGTERM', passOn)
  const [code, signal] = await once(child, 'exit')
  process.off('SIGINT', outlive).off('SIGTERM', passOn)
  if (code !== 0)
    throw new StepFailed(`${[basename(program), ...args].join(' ')} ended with ${signal ?? `code ${code}`}`)
}

/**
 * The path of a tool that the workspace installed. We call it directly, since going through pnpm costs a second each time.
 *
 * @param {string} name
 * @param {string} owner the folder of the package that depends on the tool
 */
export function bin(name, owner = '.') {
  return join(ROOT, owner, 'node_modules', '.bin', name)
}

/**
 * The pnpm that package.json pins, on a machine that has only npm.
 *
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
export async function pnpm(args, env = {}) {
  const { packageManager } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  await run('npx', ['--yes', packageManager, ...args], { env })
}
