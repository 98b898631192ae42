import type { History, PipelineShape, Violation } from '../history.js'
import { raisedEpochs } from './raised-epochs.js'
import { timesForgotten } from './reaped-when-expired.js'

/** I8: a phase's calls carry one key, whoever makes them, and no other phase's calls carry it. */
export function providerKeys(history: History, shape: PipelineShape): Violation[] {
  return [...stable(history, shape), ...distinct(history)]
}

function stable(history: History, shape: PipelineShape): Violation[] {
  const phases = new Set(history.calls.map(({ phase }) => phase))
  return [...phases].flatMap((phase) => {
    const users = new Map<string, Set<string>>()
    for (const { idempotencyKey, actor } of history.calls.filter((call) => call.phase === phase)) {
      users.set(idempotencyKey, (users.get(idempotencyKey) ?? new Set()).add(actor))
    }
    const raised = raisedEpochs(history, shape, phase)
    // Sent again after its key was deleted, it is another request, whose fingerprint may be made with another secret.
    if (users.size <= 1 + raised + timesForgotten(history, shape)) return []
    const list = [...users].map(([key, actors]) => `${key} (${[...actors].join(', ')})`).join(', ')
    const epochs =
      raised === 0
        ? 'no epoch was raised'
        : `the epoch was raised ${raised === 1 ? 'once' : `${raised} times`}`
    const detail = `The calls of '${phase}' carried ${users.size} keys, but ${epochs}: ${list}.`
    return [{ rule: 'I8', title: 'the provider key of a phase is the same at every attempt', detail }]
  })
}

function distinct({ calls }: History): Violation[] {
  const phases = new Map<string, Set<string>>()
  for (const { idempotencyKey, phase } of calls) {
    phases.set(idempotencyKey, (phases.get(idempotencyKey) ?? new Set()).add(phase))
  }
  return [...phases]
    .filter(([, sharing]) => sharing.size > 1)
    .map(([key, sharing]) => ({
      rule: 'I8',
      title: 'each phase has a provider key of its own',
      detail: `The calls of ${[...sharing].map((phase) => `'${phase}'`).join(' and ')} carried the same key ${key}.`,
    }))
}
