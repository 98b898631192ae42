import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bin, run, StepFailed } from './step.mjs'

/**
 * Runs vitest and ends the output with how many tests passed and failed.
 *
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
export async function runTests(args, env = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-test-report-'))
  const report = join(folder, 'report.json')
  const flags = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  try {
    await run(bin('vitest', 'test'), ['run', ...flags, ...args], { cwd: 'test', env })
    return await summarise(report)
  } catch (error) {
    if (error instanceof StepFailed) error.lastLine = await summarise(report).catch(() => undefined)
    throw error
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** @param {string} report */
async function summarise(report) {
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(await readFile(report, 'utf8'))
  // A file that does not even load has no tests to count, but it must not look like success.
  const broken = testResults.filter(
    (/** @type {{ status: string, assertionResults: unknown[] }} */ file) =>
      file.status === 'failed' && file.assertionResults.length === 0,
  )
  return `${numPassedTests} passed, ${numFailedTests + broken.length} failed`
}
