import type { RetryReason } from '@pawl/core'
import type { BusyAnswer, BusyError, ForeignPlan, Mishap, SqlError, Trouble } from './phase-plan.js'

/** Why each call was in vain that `onError` did not end. */
export function callsInVain({ refusal }: ForeignPlan): RetryReason[] {
  if (refusal === null) return []
  if (refusal.kind === 'declined') return rollbacks(refusal.onError.trouble)
  return repeated(reasonOfBusy(refusal.onError, refusal.error), refusal.times)
}

/** Whether it is certain that a call in vain had no effect: only `notExecuted` says so. */
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

/** Why each try of a transaction was given up. Conflicts are tried again by the engine itself: nobody hears of them. */
export function rollbacks(trouble: Trouble | null): RetryReason[] {
  if (trouble === null) return []
  const reason = reasonOfMishap(trouble.mishap)
  return reason === null ? [] : repeated(reason, trouble.times)
}

function reasonOfMishap(mishap: Mishap): RetryReason | null {
  switch (mishap.kind) {
    case 'throws':
      return 'unknown_error'
    case 'retry_later':
    case 'answers':
      return 'asked_by_phase'
    case 'sql_error':
      return reasonOfSqlError(mishap.error)
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
