import type { Conclusion } from '../case/conclude-trial.js'
import type { PipelineShape, Violation } from '../history.js'
import type { CleanRun } from '../oracle/clean-run.js'
import { judge } from '../oracle/judge.js'

/** Returns everything that did not hold: in the history, against the clean run, and as seen while the case ran. */
export function judgeCase(
  { history, seen }: Pick<Conclusion, 'history' | 'seen'>,
  shape: PipelineShape,
  clean: CleanRun | null,
  faults: number,
): Violation[] {
  // A request that was tried too often is rightly stuck, whatever its guarantees are.
  const options = faults >= shape.maxAttempts ? { mayBeStuck: true } : {}
  return [...seen, ...judge(history, shape, clean, options)]
}
