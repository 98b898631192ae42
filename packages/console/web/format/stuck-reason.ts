import type { InboxReason } from '../../src/api.js'

/** What each reason is called, and what it means, in the words of docs/operations.md. */
export const REASON_TEXT: Readonly<
  Record<InboxReason, { readonly title: string; readonly meaning: string }>
> = {
  unknown_outcome: {
    title: 'Unknown outcome',
    meaning: 'A call that must not be repeated was interrupted. The provider may have acted, or not.',
  },
  window_passed: {
    title: 'Window passed',
    meaning: 'The provider may have forgotten the key of a call, and cannot be asked what became of it.',
  },
  attempts_exhausted: {
    title: 'Attempts exhausted',
    meaning: 'The same phase keeps throwing. That is a bug: fix it, deploy, and retry.',
  },
  too_old: {
    title: 'Too old',
    meaning: 'It did not finish within the age that its pipeline allows. Its client may have given up.',
  },
  transaction_ended: {
    title: 'Transaction ended',
    meaning: 'A phase ended its own transaction: rows may be there without their recovery point.',
  },
  unattended_for_long: {
    title: 'Unattended for long',
    meaning: 'Due for minutes, and nobody runs it. Is a completer running where the pipeline is registered?',
  },
}
