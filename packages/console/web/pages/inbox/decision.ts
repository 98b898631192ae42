import type { InboxReason } from '../../../src/api.js'

/** What to find out about a reason, and what to do about what was found. */
export interface Decision {
  readonly first: string
  readonly steps: readonly { readonly found: string; readonly act: string }[]
}

const WHERE_CALLS_ARE_FOUND =
  'Look for the call at the provider, around the time of the last line of the timeline. If that does not settle it, ask whether it can still be executed.'

/** The decision table of docs/operations.md. */
export const DECISIONS: Readonly<Record<InboxReason, Decision>> = {
  unknown_outcome: {
    first: WHERE_CALLS_ARE_FOUND,
    steps: [
      {
        found: 'It was executed',
        act: 'Mark it as executed, with what the call would have returned. The provider is not called again.',
      },
      {
        found: 'It was not, and can no longer be',
        act: 'Mark it as not executed. It is called again, once, under a new provider key.',
      },
      { found: 'It should not happen any more', act: 'Undo what was done, and answer it.' },
    ],
  },
  window_passed: {
    first: `${WHERE_CALLS_ARE_FOUND} Sent again under the same key, it could be executed twice.`,
    steps: [
      { found: 'It was executed', act: 'Mark it as executed, with what the call would have returned.' },
      {
        found: 'It was not',
        act: 'Mark it as not executed. It is called again under a new provider key, and its window starts again.',
      },
      {
        found: 'It happens often',
        act: 'Give the phase a reconcile: the completer then asks the provider by itself.',
      },
    ],
  },
  attempts_exhausted: {
    first: 'The last error and the point name the phase. The log of your service has the stack.',
    steps: [
      { found: 'A bug', act: 'Fix it, deploy, and retry. Settled effects are not repeated.' },
      { found: 'An input that can never work', act: 'Undo what its phases did, and answer it.' },
    ],
  },
  too_old: {
    first: 'Ask whether it should still happen.',
    steps: [
      { found: 'Yes', act: 'Retry. Its age starts again.' },
      {
        found: 'No',
        act: 'Undo what phases wrote and providers did, then answer it: every retry of its client gets that.',
      },
    ],
  },
  transaction_ended: {
    first:
      'The phase that the last error names ran COMMIT or ROLLBACK. What it wrote may be there without its recovery point.',
    steps: [
      { found: 'Your tables are cleaned up, and the phase is fixed', act: 'Retry.' },
      { found: 'It belongs to an atomic handler', act: 'It can only be answered.' },
    ],
  },
  unattended_for_long: {
    first: 'No completer seems to run where this pipeline and version are registered.',
    steps: [
      {
        found: 'None runs',
        act: 'Start one. It takes these within seconds, and nothing has to be done here.',
      },
      {
        found: 'The version is gone',
        act: 'Deploy it again beside the new one, or let the new one upgrade from it.',
      },
    ],
  },
}
