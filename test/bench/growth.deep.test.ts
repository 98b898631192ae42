import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import type { Report } from '../../bench/src/report/report.js'

const MAIN = fileURLToPath(new URL('../../bench/dist/main.js', import.meta.url))
const TIMEOUT_MS = 10 * 60_000
const MAX_BUFFER = 50_000_000

test(
  'growth measures both layouts, with and without keys, in a small run',
  async () => {
    const { DATABASE_URL: _given, ...env } = process.env
    const argv = [MAIN, '--quick', '--only', 'growth', '--json']
    const { stdout } = await promisify(execFile)(process.execPath, argv, { env, maxBuffer: MAX_BUFFER })
    const { sections, errors } = JSON.parse(stdout) as Report
    expect(errors).toEqual([])
    const SIZES = ['empty table', '20 thousand keys', '100 thousand keys']
    const both = SIZES.flatMap((size) => [size, `${size}, partitioned`])
    for (const name of ['growth', 'growth replay']) {
      const lines = sections.find((section) => section.name === name)?.lines ?? []
      expect(lines.map(({ contender }) => contender)).toEqual(both)
    }
    const figures = (name: string) => sections.find((section) => section.name === name)?.figures
    // Both layouts have the same rows and the same indexes; small ones have a page to spare in each partition.
    const [plain, partitioned] = (figures('growth bytes')?.rows ?? []).filter(({ label }) =>
      label.startsWith('100'),
    )
    for (const [at, bytes] of (plain?.values ?? []).slice(0, 4).entries()) {
      expect((partitioned?.values[at] ?? 0) / (bytes ?? 0)).toBeGreaterThan(0.98)
      expect((partitioned?.values[at] ?? 0) / (bytes ?? 0)).toBeLessThan(1.4)
    }
    expect(figures('growth reaper')?.rows).toHaveLength(4)
    for (const { values } of figures('growth reaper')?.rows ?? []) expect(values[0]).toBeGreaterThan(0)
    expect(figures('growth vacuum')?.rows.map(({ values }) => values[1])).toEqual([1, 16])
  },
  TIMEOUT_MS,
)
