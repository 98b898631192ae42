import fc from 'fast-check'
import { expect, vi } from 'vitest'
import { amountOf, replayLine, SEED } from '../../support/amounts.js'

/** What a test has without any case, the same as in vitest's configuration. */
const LEAST_TIMEOUT_MS = 90_000

/** Several times what the slowest case takes, which has sockets and transactions, on a busy machine. */
const TIMEOUT_PER_RUN_MS = 100

// This is for the tests of the file that imports this one: `PAWL_RUNS` may ask for hours.
vi.setConfig({ testTimeout: LEAST_TIMEOUT_MS + amountOf('runs') * TIMEOUT_PER_RUN_MS })

/** Longest counterexample that is shown, in characters. These are a few screens, and a replay has all of it. */
const MAX_SHOWN_LENGTH = 4_000

/** Runs a property, and fails with its smallest counterexample and the line that replays it. */
export async function assertProperty<Case>(
  property: fc.IRawProperty<Case>,
  runs = amountOf('runs'),
  amount: 'runs' | 'pipelineRuns' = 'runs',
): Promise<void> {
  const details = await fc.check(property, { numRuns: runs, seed: SEED })
  if (!details.failed) return
  throw new Error(
    [
      `The property does not hold: case ${details.numRuns} of ${runs}, made smaller ${details.numShrinks} times.`,
      `Counterexample: ${shown(details.counterexample)}`,
      `Why: ${whyOf(details)}`,
      `Seed ${details.seed}, path ${details.counterexamplePath ?? 'none'}. To see it again:`,
      `  ${replayCommand(amount)}`,
    ].join('\n'),
    { cause: details.errorInstance },
  )
}

function shown(counterexample: unknown): string {
  const text = fc.stringify(counterexample)
  return text.length > MAX_SHOWN_LENGTH
    ? `${text.slice(0, MAX_SHOWN_LENGTH)}… (${text.length} characters)`
    : text
}

function whyOf<Case>({ errorInstance, interrupted, numSkips }: fc.RunDetails<Case>): string {
  if (errorInstance instanceof Error) return errorInstance.message
  if (errorInstance !== null && errorInstance !== undefined) return fc.stringify(errorInstance)
  return interrupted ? 'it ran out of time' : `too few cases fit its preconditions (${numSkips} did not)`
}

function replayCommand(amount: 'runs' | 'pipelineRuns'): string {
  const { testPath = '' } = expect.getState()
  const [, file = ''] = /(property\/.*)\.test\.ts$/.exec(testPath.replaceAll('\\', '/')) ?? []
  return replayLine(file, amount)
}
