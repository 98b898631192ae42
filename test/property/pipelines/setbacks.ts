import type { RetryReason } from '@pawl/core'
import type { Awaits } from './body-style.js'
import type { BusyAnswer, BusyError, ForeignPlan, SqlError, TransactionPlan, Trouble } from './phase-plan.js'

/** Why each call was in vain, for those that `onError` did not end. */
export function callsInVain({ refusal }: ForeignPlan): RetryReason[] {
  if (refusal === null) return []
  if (refusal.kind === 'declined') return rollbacks(refusal.onError)
  return repeated(reasonOfBusy(refusal.onError, refusal.error), refusal.times)
}

/** Whether it is certain that a call in vain had no effect, which only `notExecuted` says. */
export function isKnownUnmade({ refusal }: ForeignPlan): boolean {
  return refusal?.kind === 'busy' && refusal.onError === 'not_executed'
}

function reasonOfBusy(answer: BusyAnswer, error: BusyError): RetryReason {
  switch (answer) {
    case 'absent':
    case 'nothing':
    case 'answers_finally':
      return error === 'broken_answer' ? 'unknown_error' : 'transient_error'
    case 'retry_later':
    case 'not_executed':
    case 'answers_503':
      return 'asked_by_phase'
    case 'throws':
      return 'unknown_error'
  }
}

/** Why each try of a transaction was given up. The engine itself retries conflicts, so nobody hears of them. */
export function rollbacks({ trouble, style, work }: TransactionPlan, charged = false): RetryReason[] {
  if (trouble === null) return []
  const queries = (style.slow ? 1 : 0) + (charged ? 1 : 0) + work.facts.length + work.totals.length
  const reason = reasonOfTrouble(trouble, style.awaits, queries)
  return reason === null ? [] : repeated(reason, trouble.times)
}

/** `queries` is how many of them the body's work has. Returns null if nobody hears of it. */
function reasonOfTrouble({ mishap, at }: Trouble, awaits: Awaits, queries: number): RetryReason | null {
  switch (mishap.kind) {
    case 'throws_at_once':
      return 'unknown_error'
    case 'throws':
    case 'stage_refused':
    case 'nested':
    case 'stream':
      return awaits === 'all_settled' ? null : 'unknown_error'
    case 'retry_later':
    case 'answers':
      return 'asked_by_phase'
    case 'sql_error': {
      const reason = reasonOfSqlError(mishap.error)
      // What comes after it fails because of it, and hides it, unless it is a conflict.
      const isFollowed = at === 'first' && awaits !== 'race' && queries > 0 && mishap.afterwards !== 'passes'
      const isHidden = awaits !== 'all_settled' && (isFollowed || mishap.afterwards === 'queries_on')
      return isHidden && reason !== null ? 'unknown_error' : reason
    }
  }
}

function reasonOfSqlError(error: SqlError): RetryReason | null {
  switch (error) {
    case 'serialization_failure':
    case 'deadlock':
    case 'lock_not_available':
      return null
    case 'query_cancelled':
      return 'transient_error'
    case 'unique_violation':
      return 'unknown_error'
  }
}

function repeated(reason: RetryReason, times: number): RetryReason[] {
  return Array.from({ length: times }, () => reason)
}
