import type { History, Told, Violation } from '../history.js'
import { grantsOf } from './grants.js'
import { type KeyState, readKey, whereIs } from './key-state.js'
import { keyWrites } from './key-writes.js'

/** What was told agrees with the row, with what others were told, and with what was done. */
export function toldTruth(history: History): Violation[] {
  return [
    ...asInTheRow(history),
    ...completedOnce(history),
    ...fencedOffBySomebody(history),
    ...ranNothing(history),
  ]
}

const violation = (title: string, detail: string): Violation => ({ rule: 'told', title, detail })

function asInTheRow(history: History): Violation[] {
  return history.told.flatMap((told) => {
    const row = told.row === null ? null : readKey(told.row)
    const contradiction = row === null ? null : contradictionOf(history, told, row)
    if (row === null || contradiction === null) return []
    const detail = `${told.actor} was told ${contradiction}, and the row was ${row.status} ${whereIs(row)}.`
    return [violation('what is told agrees with the row', detail)]
  })
}

function contradictionOf(
  history: History,
  { actor, outcome, failedOver = false }: Told,
  row: KeyState,
): string | null {
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return outcome.keyId === row.id && row.status !== 'finished' ? `'${outcome.type}'` : null
    case 'stuck':
      return outcome.keyId === row.id && row.status !== 'stuck' ? `'stuck' (${outcome.reason})` : null
    case 'retry_later':
      // Somebody else may have gone on with it since, or a failover has taken it back.
      if (failedOver || outcome.keyId !== row.id || !isHeldBy(history, row, actor)) return null
      return row.status === 'finished' || row.recoveryPoint !== outcome.recoveryPoint
        ? `'retry_later' at '${outcome.recoveryPoint}' (${outcome.reason})`
        : null
    case 'in_flight':
      // Its own fence is still the last one: nobody has taken the key over by then. A failover can look like that.
      return !failedOver && outcome.fencedOff && row.status === 'running' && isHeldBy(history, row, actor)
        ? 'that it had been fenced off'
        : null
    case 'mismatch':
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

function completedOnce({ told }: History): Violation[] {
  const finishers = new Map<string, string[]>()
  for (const { actor, outcome } of told) {
    if (outcome.type !== 'completed') continue
    finishers.set(outcome.keyId, [...(finishers.get(outcome.keyId) ?? []), actor])
  }
  return [...finishers]
    .filter(([, actors]) => actors.length > 1)
    .map(([keyId, actors]) => {
      const detail = `${actors.join(' and ')} were told 'completed' for the key ${keyId}: only one can have finished it.`
      return violation("one execution is told 'completed'", detail)
    })
}

function fencedOffBySomebody(history: History): Violation[] {
  const robbed = new Set(
    grantsOf(history).flatMap(({ how, from }) =>
      (how === 'taken_over' || how === 'steered') && from !== null ? [from] : [],
    ),
  )
  const isGone = keyWrites(history).some(({ op }) => op === 'DELETE')
  return history.told
    .filter(
      ({ outcome, actor, failedOver = false }) =>
        outcome.type === 'in_flight' && outcome.fencedOff && !robbed.has(actor) && !isGone && !failedOver,
    )
    .map(({ actor }) =>
      violation(
        'only who was taken over from is fenced off',
        `${actor} was told that it had been fenced off, and nobody took the key over from it.`,
      ),
    )
}

/** These say that nothing of the pipeline ran. */
const BEFORE_USER_CODE: ReadonlySet<string> = new Set(['unavailable', 'refused', 'gone'])

function ranNothing({ told, calls }: History): Violation[] {
  return told
    .filter(({ outcome }) => BEFORE_USER_CODE.has(outcome.type))
    .flatMap(({ actor, execution, outcome }) =>
      calls
        .filter((call) => call.execution === execution)
        .map(({ phase, kind }) =>
          violation(
            'who is told that it could not begin has not begun',
            `${actor} was told '${outcome.type}', and had made the ${kind} of '${phase}'.`,
          ),
        ),
    )
}
