import { type ChildProcess, execFile, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { RideTrial } from './ride-trial.js'

const RIDE_PROCESS = fileURLToPath(new URL('../fixtures/ride-process.mjs', import.meta.url))

/** How a process ended: the outcome of its request, if it reported one, and the signal that killed it. */
interface ProcessEnd {
  readonly said: unknown
  readonly signal: string | null
}

/** Executes the request in a process that sends itself a signal at a position. `ended` waits for the server to notice too. */
export function startRideProcess(
  trial: RideTrial,
  at: string,
  signal: 'SIGKILL' | 'SIGSTOP',
): { readonly child: ChildProcess; readonly ended: Promise<ProcessEnd> } {
  const { url, schema, businessSchema } = trial.database
  const { account, url: providerUrl } = trial.provider
  const { scope, key } = trial
  const applicationName = `process_${randomUUID()}`
  const where = { url, schema, businessSchema, applicationName, providerUrl, account }
  const child = fork(RIDE_PROCESS, [JSON.stringify({ ...where, scope, key, at, signal })])
  return { child, ended: ending(child, () => trial.database.backendsGone(applicationName)) }
}

async function ending(child: ChildProcess, noticed: () => Promise<void>): Promise<ProcessEnd> {
  let said: unknown = null
  child.on('message', (message) => {
    said = message
  })
  const [, signal] = (await once(child, 'close')) as [number | null, string | null]
  await noticed()
  return { said, signal }
}

/** Resolves when the process is stopped. */
export async function stopped(child: ChildProcess): Promise<void> {
  const ps = promisify(execFile)
  const state = async () => (await ps('ps', ['-o', 'stat=', '-p', String(child.pid)])).stdout
  while (!(await state()).startsWith('T'));
}
