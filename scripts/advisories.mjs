import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { listLocked } from './installed.mjs'
import { StepFailed } from './step.mjs'

/** A registry that answers does so within a second. Nobody's check should wait for one that does not. */
const TIMEOUT_MS = 15_000
/** What `npm audit` asks. */
const ENDPOINT = '-/npm/v1/security/advisories/bulk'
const SERIOUS = ['high', 'critical']

/**
 * @typedef {{ severity: string, title: string, url: string }} Advisory
 * @typedef {{ readonly name: string, readonly version: string, readonly isShipped: boolean }} Used
 */

/**
 * Fails where the registry knows of a high or critical advisory for what users of our packages get; lists all others. Where the
 * registry does not answer, or cannot, that is one line: a check must not depend on somebody else's server.
 */
export async function checkAdvisories() {
  const used = await listLocked()
  const answer = await askRegistry(await registryOf(), used)
  if (typeof answer === 'string') return console.log(`  not known: ${answer}`)
  const { failures, notes } = judgeAdvisories(answer, used)
  for (const note of notes) console.log(`  ${note}`)
  if (failures.length > 0) throw new StepFailed(failures.join('\n'))
}

/** The registry that npm is configured for. */
async function registryOf() {
  const { stdout } = await promisify(execFile)('npm', ['config', 'get', 'registry'])
  return stdout.trim()
}

/**
 * Returns the advisories by the name of the package, or in words why there are none.
 *
 * @param {string} registry
 * @param {readonly Used[]} used
 * @param {number} timeoutMs
 * @returns {Promise<Record<string, Advisory[]> | string>}
 */
export async function askRegistry(registry, used, timeoutMs = TIMEOUT_MS) {
  /** @type {Record<string, string[]>} */
  const question = {}
  for (const { name, version } of used) (question[name] ??= []).push(version)
  try {
    const answer = await fetch(new URL(ENDPOINT, registry.endsWith('/') ? registry : `${registry}/`), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(question),
      signal: AbortSignal.timeout(timeoutMs),
    })
    if (!answer.ok) return `the registry ${registry} answered ${answer.status} when asked for advisories`
    const advisories = await answer.json()
    if (isAdvisories(advisories)) return advisories
    return `the registry ${registry} answered with something that is no list of advisories`
  } catch (error) {
    const { name, cause } = /** @type {Error} */ (error)
    const why = cause instanceof Error ? cause.message : name
    return `the registry ${registry} did not answer when asked for advisories (${why})`
  }
}

/**
 * @param {unknown} answer
 * @returns {answer is Record<string, Advisory[]>}
 */
function isAdvisories(answer) {
  return (
    typeof answer === 'object' &&
    answer !== null &&
    Object.values(answer).every((each) => Array.isArray(each))
  )
}

/**
 * What fails the check, and what is only listed: one line for each advisory.
 *
 * @param {Record<string, Advisory[]>} answer
 * @param {readonly Used[]} used
 */
export function judgeAdvisories(answer, used) {
  const shipped = new Set(used.filter(({ isShipped }) => isShipped).map(({ name }) => name))
  const all = Object.entries(answer).flatMap(([name, advisories]) =>
    advisories.map(({ severity, title, url }) => ({
      line: `${name}: ${severity}: ${title} (${url})`,
      isFailure: shipped.has(name) && SERIOUS.includes(severity),
    })),
  )
  const lines = (/** @type {boolean} */ failing) =>
    all.filter(({ isFailure }) => isFailure === failing).map(({ line }) => line)
  return { failures: lines(true), notes: lines(false) }
}
