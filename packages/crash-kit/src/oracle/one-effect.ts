import type { CallMade, History, PipelineShape, ProviderRequest, Violation } from '../history.js'
import { lostDeclarations } from './lost-declarations.js'
import { raisedEpochs } from './raised-epochs.js'
import { timesForgotten } from './reaped-when-expired.js'
import { isStateChanging } from './state-changing.js'

/** I2: a phase has one effect at the provider, by the provider's own ledger. */
export function oneEffect(history: History, shape: PipelineShape): Violation[] {
  return [
    ...shape.foreign.flatMap(({ phase, guarantee }) => {
      const forgotten = timesForgotten(history, shape)
      const requests = requestsOf(history, phase)
      // A provider that deduplicates does so, whatever the database has lost.
      const unknown = guarantee === 'keyed' ? 0 : lostDeclarations(history, phase)
      const twice = effectsOf(phase, requests, forgotten + unknown)
      return guarantee === 'at_most_once'
        ? [...twice, ...attemptsOf(history, shape, phase, requests, forgotten + unknown)]
        : twice
    }),
    ...callsRepeated(history),
  ]
}

/** A request whose actor is unknown is recognised by its key. */
function requestsOf({ requests, calls }: History, phase: string): ProviderRequest[] {
  const keys = new Set(calls.filter((call) => call.phase === phase).map((call) => call.idempotencyKey))
  return requests.filter(
    (request) =>
      isStateChanging(request) &&
      (request.phase === phase ||
        (request.phase === null && request.idempotencyKey !== null && keys.has(request.idempotencyKey))),
  )
}

/** `unknown` is the number of calls that nobody could know of any more, or need know of. */
function effectsOf(phase: string, requests: readonly ProviderRequest[], unknown: number): Violation[] {
  const executed = requests.filter((request) => request.executed)
  if (executed.length <= 1 + unknown) return []
  const detail = `The provider executed ${executed.length} requests of '${phase}': ${listOf(executed)}.`
  return [{ rule: 'I2', title: 'a phase has at most one effect at the provider', detail }]
}

function attemptsOf(
  history: History,
  shape: PipelineShape,
  phase: string,
  requests: readonly ProviderRequest[],
  unknown: number,
): Violation[] {
  const allowed = 1 + raisedEpochs(history, shape, phase) + unknown
  if (requests.length <= allowed) return []
  const detail = `The provider got ${requests.length} requests of '${phase}', which may not be repeated: ${listOf(requests)}.`
  return [{ rule: 'I2', title: 'an at_most_once phase makes at most one attempt', detail }]
}

function listOf(requests: readonly ProviderRequest[]): string {
  return requests
    .map(({ actor, method, path, idempotencyKey }) => {
      const key = idempotencyKey === null ? 'without a key' : `under key ${idempotencyKey}`
      return `${method} ${path} by ${actor ?? 'an unknown sender'} ${key}`
    })
    .join('; ')
}

/** A conflict repeats the transaction that settles a call, never the call. After a failover that took the key back, it may. */
function callsRepeated({ calls, lost }: History): Violation[] {
  if (lost.length > 0) return []
  const violations: Violation[] = []
  const last = new Map<string, CallMade['kind']>()
  for (const { execution, phase, kind, actor } of calls.toSorted((a, b) => a.tick - b.tick)) {
    const where = JSON.stringify([execution, phase])
    if (kind === 'call' && last.get(where) === 'call') {
      violations.push({
        rule: 'I2',
        title: 'a call is never repeated by a conflict of its transaction',
        detail: `${actor} made the call of '${phase}' a second time in one execution, without asking the provider in between.`,
      })
    }
    last.set(where, kind)
  }
  return violations
}
