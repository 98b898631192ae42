import type { History, ReturnedOutcome, Violation } from '../history.js'
import { grantsOf } from './grants.js'
import { type KeyState, readKey, whereIs } from './key-state.js'
import { keyWrites } from './key-writes.js'

/** Outcomes agree with the row, with the outcomes of others, and with what was done. */
export function trueOutcomes(history: History): Violation[] {
  return [
    ...asInTheRow(history),
    ...limitedWhenNew(history),
    ...expiredAfterDeletion(history),
    ...completedOnce(history),
    ...fencedOffBySomebody(history),
    ...ranNothing(history),
  ]
}

const violation = (title: string, detail: string): Violation => ({ rule: 'outcome', title, detail })

function asInTheRow(history: History): Violation[] {
  return history.outcomes.flatMap((returned) => {
    const row = returned.row === null ? null : readKey(returned.row)
    const contradiction = row === null ? null : contradictionOf(history, returned, row)
    if (row === null || contradiction === null) return []
    const detail = `${returned.actor} got ${contradiction}, but the row was ${row.status} ${whereIs(row)}.`
    return [violation('an outcome agrees with the row', detail)]
  })
}

/** Limits are for new keys. Whoever asks for one that is there is told of it, whatever else its scope has. */
function limitedWhenNew({ outcomes }: History): Violation[] {
  return outcomes
    .filter(({ outcome, row }) => outcome.type === 'limited' && row !== null)
    .map(({ actor }) =>
      violation(
        'a key that is there is never refused because of a limit',
        `${actor} got 'limited', but the key had been reserved before.`,
      ),
    )
}

function expiredAfterDeletion(history: History): Violation[] {
  if (history.lost.length > 0 || keyWrites(history).some(({ op }) => op === 'DELETE')) return []
  return history.outcomes
    .filter(({ outcome }) => outcome.type === 'expired')
    .map(({ actor }) =>
      violation(
        'a key has expired only when it was deleted',
        `${actor} got 'expired', but nobody had deleted the key.`,
      ),
    )
}

function contradictionOf(
  history: History,
  { actor, outcome, failedOver = false }: ReturnedOutcome,
  row: KeyState,
): string | null {
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return outcome.keyId === row.id && row.status !== 'finished' ? `'${outcome.type}'` : null
    case 'stuck':
      return outcome.keyId === row.id && row.status !== 'stuck' ? `'stuck' (${outcome.reason})` : null
    case 'retry_later':
      // Somebody else may have gone on with the key since, or a failover may have taken it back.
      if (failedOver || outcome.keyId !== row.id || !isHeldBy(history, row, actor)) return null
      return row.status === 'finished' || row.recoveryPoint !== outcome.recoveryPoint
        ? `'retry_later' at '${outcome.recoveryPoint}' (${outcome.reason})`
        : null
    case 'in_flight':
      // Its own fence is still the latest one, so nobody had taken the key over. After a failover it can look like that.
      return !failedOver && outcome.fencedOff && row.status === 'running' && isHeldBy(history, row, actor)
        ? "'in_flight' (fenced off)"
        : null
    case 'mismatch':
    case 'expired':
    case 'limited':
    case 'refused':
    case 'unavailable':
    case 'gone':
      return null
  }
}

function isHeldBy(history: History, { id, fence }: KeyState, actor: string): boolean {
  const granted = grantsOf(history).find((grant) => grant.keyId === id && grant.fence === fence)
  return granted?.actor === actor
}

function completedOnce({ outcomes }: History): Violation[] {
  const finishers = new Map<string, string[]>()
  for (const { actor, outcome } of outcomes) {
    if (outcome.type !== 'completed') continue
    finishers.set(outcome.keyId, [...(finishers.get(outcome.keyId) ?? []), actor])
  }
  return [...finishers]
    .filter(([, actors]) => actors.length > 1)
    .map(([keyId, actors]) => {
      const detail = `${actors.join(' and ')} got 'completed' for the key ${keyId}: only one can have finished it.`
      return violation("only one execution gets 'completed'", detail)
    })
}

function fencedOffBySomebody(history: History): Violation[] {
  const overtaken = new Set(
    grantsOf(history).flatMap(({ how, from }) =>
      (how === 'taken_over' || how === 'steered') && from !== null ? [from] : [],
    ),
  )
  const isGone = keyWrites(history).some(({ op }) => op === 'DELETE')
  return history.outcomes
    .filter(
      ({ outcome, actor, failedOver = false }) =>
        outcome.type === 'in_flight' && outcome.fencedOff && !overtaken.has(actor) && !isGone && !failedOver,
    )
    .map(({ actor }) =>
      violation(
        'only a holder whose key was taken over is fenced off',
        `${actor} got 'in_flight' (fenced off), but nobody took the key over from it.`,
      ),
    )
}

/** These outcomes mean that nothing of the pipeline ran. */
const BEFORE_USER_CODE: ReadonlySet<string> = new Set([
  'unavailable',
  'refused',
  'expired',
  'limited',
  'gone',
])

function ranNothing({ outcomes, calls }: History): Violation[] {
  return outcomes
    .filter(({ outcome }) => BEFORE_USER_CODE.has(outcome.type))
    .flatMap(({ actor, execution, outcome }) =>
      calls
        .filter((call) => call.execution === execution)
        .map(({ phase, kind }) =>
          violation(
            'an execution that could not begin has made no call',
            `${actor} got '${outcome.type}', but had made the ${kind} of '${phase}'.`,
          ),
        ),
    )
}
