/** Skips the test, and reports why. If it returns, the test can no longer be skipped, and has to run. */
export type Skip = (why: string) => void

/** Declares a test, or runs it at once. */
type DeclareTest = (title: string, timeoutMs: number, run: (skip: Skip) => Promise<void>) => Promise<void>

/** How cases run: as vitest tests that are being declared, or right here. */
export interface Runner {
  readonly test: DeclareTest
  group(title: string, declare: (test: DeclareTest) => Promise<void>): Promise<void>
  /** Prints for the person who runs the tests. */
  print(text: string): void
}

/** Runs everything at once, and ends with the first finding. */
const HERE: Runner = {
  test: (_title, _timeoutMs, run) => run(() => {}),
  group: (_title, declare) => declare(HERE.test),
  print: () => {},
}

/** A second try would only hide a finding, so there is none. Tests are not concurrent, because cases share one database. */
const ONCE = { retry: 0, concurrent: false } as const

/** Returns the runner for where we are. `atEnd` is called when vitest has run the tests. */
export async function currentRunner(atEnd: () => Promise<void>): Promise<Runner> {
  // vitest may be installed without running this: a script or another test runner may.
  if (!process.env['VITEST']) return HERE
  const vitest = await import('vitest')
  if (await isInTest(vitest)) return HERE
  vitest.afterAll(atEnd)
  const test: DeclareTest = async (title, timeout, run) => {
    vitest.test(title, { timeout, ...ONCE }, ({ skip }) => run(skip))
  }
  return {
    test,
    async group(title, declare) {
      // Not in the callback of `describe`: declaring may have to wait, and tests run in the order of these calls.
      const declared: Parameters<DeclareTest>[] = []
      await declare(async (...each) => void declared.push(each))
      vitest.describe.sequential(title, () => {
        for (const [name, timeout, run] of declared)
          vitest.test(name, { timeout, ...ONCE }, ({ skip }) => run(skip))
      })
    },
    print: (text) => console.log(text),
  }
}

/** Does not ask `expect`: where files share a process (`isolate: false`), it still names the last test of the previous file. */
async function isInTest({ TestRunner }: Partial<typeof import('vitest')>): Promise<boolean> {
  // Before vitest 4.1, only this module has it; since then, importing it prints a deprecation warning.
  const { getCurrentTest } = TestRunner ?? (await import('vitest/suite'))
  return getCurrentTest() !== undefined
}
