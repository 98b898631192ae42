/** Leaves the test out, and says why. Returns where a test cannot be left out any more: then it has to run. */
export type Skip = (why: string) => void

/** What declares a test, or runs it at once. */
type DeclareTest = (title: string, timeoutMs: number, run: (skip: Skip) => Promise<void>) => Promise<void>

/** Where cases run: as tests of vitest that are being declared, or right here. */
export interface Runner {
  readonly test: DeclareTest
  group(title: string, declare: (test: DeclareTest) => Promise<void>): Promise<void>
  /** Tells the person who runs the tests. */
  say(text: string): void
}

/** Runs everything at once; the first finding ends it. */
const HERE: Runner = {
  test: (_title, _timeoutMs, run) => run(() => {}),
  group: (_title, declare) => declare(HERE.test),
  say: () => {},
}

/** A finding is a finding: a second try would only hide it. And cases share one database. */
const ONCE = { retry: 0, concurrent: false } as const

/** `atEnd` is called when vitest has run the tests. */
export async function currentRunner(atEnd: () => Promise<void>): Promise<Runner> {
  // It may be installed and not be what runs this: a script, or another test runner.
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
      // Not in the callback: what declares may have to wait, and the order of tests is that of the calls.
      const declared: Parameters<DeclareTest>[] = []
      await declare(async (...each) => void declared.push(each))
      vitest.describe.sequential(title, () => {
        for (const [name, timeout, run] of declared)
          vitest.test(name, { timeout, ...ONCE }, ({ skip }) => run(skip))
      })
    },
    say: (text) => console.log(text),
  }
}

/** Not by what `expect` knows: where files share a process (`isolate: false`), that is still the last test of the file before. */
async function isInTest({ TestRunner }: Partial<typeof import('vitest')>): Promise<boolean> {
  // Before vitest 4.1, only this module has it; since then, it says that it is deprecated.
  const { getCurrentTest } = TestRunner ?? (await import('vitest/suite'))
  return getCurrentTest() !== undefined
}
