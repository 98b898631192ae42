import type { Commit } from '../../../packages/crash-kit/src/history.js'

/** A statement of a body: its fact or its total with that number, the error of its mishap, or the row after that error. */
export type Write = `fact ${number}` | `total ${number}` | 'error' | 'stray'

/**
 * Whether an injected exception kept a statement from being sent. The database then knows nothing of it, and the transaction
 * is as good as before: a body that swallows the exception commits without that statement.
 */
function isUnsent(error: unknown): boolean {
  return error instanceof Error && /^injected at \S+:before$/.test(error.message)
}

/** Waits for a statement as `begun` alone would, and notes it in `unsent` if it was not sent. */
export async function notingUnsent(write: Write, unsent: Set<Write>, begun: Promise<unknown>): Promise<void> {
  try {
    await begun
  } catch (error) {
    if (isUnsent(error)) unsent.add(write)
    throw error
  }
}

interface Unsent {
  readonly phase: string
  /** The id that PostgreSQL has given the transaction. */
  readonly transaction: string
  readonly writes: ReadonlySet<Write>
}

/**
 * What bodies did not send although they went on. It belongs to the test, as `Chances` does. Which runs of a body count
 * shows only in the end: those whose transaction has committed.
 */
export class UnsentWrites {
  readonly #all: Unsent[] = []

  add(unsent: Unsent): void {
    this.#all.push(unsent)
  }

  /** What is missing from each phase, if these transactions are the ones that have committed. */
  committedIn(commits: readonly Commit[]): (phase: string) => ReadonlySet<Write> {
    const committed = new Set(commits.map(({ transaction }) => transaction))
    const counted = this.#all.filter(({ transaction }) => committed.has(transaction))
    return (phase) =>
      new Set(counted.filter((unsent) => unsent.phase === phase).flatMap(({ writes }) => [...writes]))
  }
}
