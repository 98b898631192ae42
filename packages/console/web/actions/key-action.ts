import type { AsJson, KeyRowSummary } from '../../src/api.js'

/** What a person can do to a key, as the API names it. */
export type KeyAction =
  | 'retry'
  | 'executed'
  | 'not-executed'
  | 'answer'
  | 'revoke'
  | 'extend'
  | 'forget'
  | 'erase'

interface ActionText {
  /** On the button that opens the dialog. */
  readonly name: string
  /** Over the dialog. */
  readonly title: string
  /** When it is the right thing to do. */
  readonly when: string
  /** On the button that does it. */
  readonly verb: string
  /** It cannot be taken back, or may move money twice. */
  readonly isDanger: boolean
}

/** In the words of docs/operations.md. */
export const ACTION_TEXT: Readonly<Record<KeyAction, ActionText>> = {
  retry: {
    name: 'Retry',
    title: 'Retry this request',
    when: 'The cause is fixed. It goes on from its recovery point, and what is settled is not repeated.',
    verb: 'Retry',
    isDanger: false,
  },
  executed: {
    name: 'It was executed',
    title: 'The call was executed',
    when: 'You found the call at the provider. Give what it would have returned, and the provider is not called again.',
    verb: 'Mark as executed',
    isDanger: false,
  },
  'not-executed': {
    name: 'It was not executed',
    title: 'The call was not executed',
    when: 'The provider has no such call, and can no longer execute it. It is made again, under a new provider key.',
    verb: 'Mark as not executed',
    isDanger: true,
  },
  answer: {
    name: 'Answer',
    title: 'Answer this request',
    when: 'It should not happen any more. You have undone by hand what its phases and providers did.',
    verb: 'Answer',
    isDanger: true,
  },
  revoke: {
    name: 'Take the lease',
    title: 'Take the lease from its holder',
    when: 'The process that holds it is known to be dead, and its lease lasts for many minutes.',
    verb: 'Take the lease',
    isDanger: true,
  },
  extend: {
    name: 'Keep for longer',
    title: 'Keep the answer for longer',
    when: 'Its client may retry after its answer would be deleted.',
    verb: 'Keep',
    isDanger: false,
  },
  forget: {
    name: 'Forget',
    title: 'Forget this request',
    when: 'The same key should run again from the start, such as after a wrong answer.',
    verb: 'Forget',
    isDanger: true,
  },
  erase: {
    name: 'Erase',
    title: 'Erase this request',
    when: 'Somebody has the right to be forgotten. Names in what has to stay are replaced by hashes.',
    verb: 'Erase',
    isDanger: true,
  },
}

/** What may be done to a key as it is now, the likeliest first. The server decides; this is what is worth offering. */
export function allowedActions(
  key: Pick<AsJson<KeyRowSummary>, 'status' | 'stuckReason' | 'call' | 'lease'>,
  now: number,
): readonly KeyAction[] {
  const { status, stuckReason, call, lease } = key
  if (status === 'finished') return ['extend', 'forget', 'erase']
  if (status === 'running') return lease !== null && Date.parse(lease.until) > now ? ['revoke'] : []
  const verdicts: readonly KeyAction[] =
    call?.known === 'may_have_been_made' ? ['executed', 'not-executed'] : []
  // Without a verdict it would be stuck again at once.
  const mustSay =
    (stuckReason === 'unknown_outcome' || stuckReason === 'window_passed') && verdicts.length > 0
  return [...(mustSay ? [] : ['retry' as const]), ...verdicts, 'answer']
}
