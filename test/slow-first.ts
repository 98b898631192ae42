import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that take longest, though some of them are short. Without times of an earlier run, which a fresh checkout does not
 * have, vitest starts with the largest files; the last one to run would then keep one core busy, and leave the others idle.
 */
const SLOWEST = [
  'create-ride.crash.test.ts',
  'crash-kit/ride.test.ts',
  'broken-engines/',
  'driver/table-lock.test.ts',
  'recovery/lost-answers.test.ts',
  'docs/examples.test.ts',
  'wire/',
  '.deep.test.ts',
  'rides/',
]

/** Starts with the slowest files. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- it is not an array's
    const bySize = await super.sort(files)
    return [...bySize.filter(isSlow), ...bySize.filter((file) => !isSlow(file))]
  }
}

function isSlow({ moduleId }: TestSpecification): boolean {
  return SLOWEST.some((part) => moduleId.includes(part))
}
