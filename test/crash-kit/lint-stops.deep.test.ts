import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, inject, test } from 'vitest'

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly title: string
      readonly status: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Runs the suite in a vitest of its own, and returns its report. The suite is meant to fail. */
async function report(): Promise<Report> {
  const config = pathOf('fixtures/lint-suite-config.mjs')
  const { VITEST: _, ...inherited } = process.env
  const env = { ...inherited, DATABASE_URL: inject('databaseUrl') }
  const stdout = await new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      [pathOf('../node_modules/vitest/vitest.mjs'), 'run', '--config', config, '--reporter=json'],
      { env, cwd: pathOf('fixtures') },
      (_error, printed) => resolve(printed),
    )
  })
  return JSON.parse(stdout.slice(stdout.indexOf('{"num'))) as Report
}

test('under vitest, a lint is reported once, and the tests after it are skipped', async () => {
  const { testResults } = await report()
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
  const [first, ...others] = tests.filter(({ status }) => status === 'failed')
  expect(others.map(({ title }) => title)).toEqual([])
  expect(first?.title).toBe('crash after charged was called, before it was settled')
  expect(first?.failureMessages[0]).toContain('lint (the pipeline is safe to resume)')
  const after = tests.slice(tests.findIndex(({ status }) => status === 'failed') + 1)
  expect(after.length).toBeGreaterThan(3)
  expect(new Set(after.map(({ status }) => status))).not.toContain('passed')
  expect(tests.some(({ status }) => status === 'passed')).toBe(true)
})
