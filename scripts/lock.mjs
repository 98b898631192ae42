import { randomUUID } from 'node:crypto'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ROOT, StepFailed } from './step.mjs'

// Short compared with an install, long compared with reading a file.
const POLL_MS = 100

/** @typedef {{ token: string, pid: number, startedAt: string }} Owner */

/**
 * Runs `work` while no other process runs its own in this checkout.
 *
 * @template T
 * @param {() => Promise<T>} work
 * @param {string} folder where the lock is
 * @returns {Promise<T>}
 */
export async function withLock(work, folder = join(ROOT, '.cache')) {
  await mkdir(folder, { recursive: true })
  const lock = join(folder, 'lock')
  await acquire(lock, { token: randomUUID(), pid: process.pid, startedAt: await startTime(process.pid) })
  try {
    return await work()
  } finally {
    await rm(lock, { force: true })
  }
}

/**
 * @param {string} lock
 * @param {Owner} me
 */
async function acquire(lock, me) {
  let told = false
  while (!(await create(lock, me))) {
    const owner = await readOwner(lock)
    if (owner === null) continue
    if (!(await isAlive(owner))) {
      await removeStale(lock, owner, me)
      continue
    }
    if (!told) console.log(`Waiting for another run in this checkout (process ${owner.pid}).`)
    told = true
    await delay(POLL_MS)
  }
}

/**
 * Two that find the same dead owner must not both remove the lock: the second would remove the first one's new lock. So
 * they elect one by creating a file named after the dead owner, which stays and can be created only once.
 *
 * @param {string} lock
 * @param {Owner} dead
 * @param {Owner} me
 */
async function removeStale(lock, dead, me) {
  const election = `${lock}.${dead.token}`
  if (await create(election, me)) {
    await rm(lock, { force: true })
    return
  }
  const elected = await readOwner(election)
  const unchanged = (await readOwner(lock))?.token === dead.token
  if (unchanged && elected !== null && !(await isAlive(elected))) {
    throw new StepFailed(`Two runs died while they held ${lock}. Remove it and try again.`)
  }
  await delay(POLL_MS)
}

/**
 * Creates a file with its content in one step, unless it exists.
 *
 * @param {string} path
 * @param {Owner} me
 */
async function create(path, me) {
  const draft = `${path}.${randomUUID()}.draft`
  await writeFile(draft, JSON.stringify(me))
  try {
    await link(draft, path)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
}

/**
 * @param {string} path
 * @returns {Promise<Owner | null>}
 */
async function readOwner(path) {
  const text = await readFile(path, 'utf8').catch(() => null)
  return text === null ? null : JSON.parse(text)
}

/** @param {Owner} owner */
async function isAlive({ pid, startedAt }) {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // We may not signal another user's process, but it is alive.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
  return (await startTime(pid)) === startedAt
}

/**
 * Distinguishes a process from a later one with the same id, which is likely in a container. Empty where there is no /proc.
 *
 * @param {number} pid
 */
async function startTime(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // Field 22; the second field, a name in parentheses, may itself hold spaces.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
}
