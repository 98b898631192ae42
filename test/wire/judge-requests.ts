import {
  type Change,
  type Commit,
  type History,
  type PipelineShape,
  type Row,
  type Violation,
} from '../../packages/crash-kit/src/history.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { isStateChanging } from '../../packages/crash-kit/src/oracle/state-changing.js'
import { textIn } from '../../packages/crash-kit/src/oracle/key-state.js'
import { ownTransaction } from './own-transaction.js'
import type { WireRequest } from './wire-request.js'
import type { WireTrial } from './wire-trial.js'

/** A request to be judged. */
export interface Judged {
  readonly request: Pick<WireRequest<never, never>, 'scope' | 'outcomes'>
  readonly shape: PipelineShape
  /** What else has to hold for it. */
  readonly more: (history: History) => readonly Violation[]
}

/** The rules that the requests broke, each with the scope of its request. */
export interface Broken extends Violation {
  readonly scope: string
}

/** Reads what the database and the provider have of all requests since the mark, and checks each against every rule. */
export async function judgeRequests(
  trial: WireTrial,
  mark: number,
  judged: readonly Judged[],
  completerRounds: number | null,
): Promise<Broken[]> {
  const commits = await trial.database.commitsSince(mark)
  const scopeOfKey = new Map<string, string>()
  for (const { changes } of commits)
    for (const { framework, table, after } of changes)
      if (framework && table === 'idempotency_keys' && after !== null)
        scopeOfKey.set(textIn(after, 'id'), textIn(after, 'scope'))
  const commitsOf = byScope(commits, scopeOfKey)
  const requests = grouped(trial.controls.history(), ({ body }) => scopeIn(body, scopeOfKey))
  const deliveries = grouped(trial.deliveries, ({ keyId }) => scopeOfKey.get(keyId) ?? '')
  return judged.flatMap(({ request, shape, more }) => {
    const sent = requests.get(request.scope) ?? []
    const history: History = {
      commits: commitsOf.get(request.scope) ?? [],
      lost: [],
      // Nobody watches the engine, so the calls that arrived are those that were made.
      calls: sent.filter(isStateChanging).map(({ tick, phase, idempotencyKey }) => ({
        tick,
        actor: 'an engine',
        execution: -tick,
        phase: phase ?? '',
        kind: 'call' as const,
        idempotencyKey: idempotencyKey ?? `${phase} without a key`,
      })),
      outcomes: request.outcomes,
      deliveries: deliveries.get(request.scope) ?? [],
      leftovers: { lostClients: [], openTransactions: [], unhandledRejections: [] },
      requests: sent,
      completerRounds,
    }
    const broken = [...judge(history, shape, null), ...ownTransaction(history, shape), ...more(history)]
    return broken.map((violation) => ({ ...violation, scope: request.scope }))
  })
}

/** Which part of each commit belongs to which key, because a renewal, a relay or a reaper writes rows of several at once. */
function byScope(commits: readonly Commit[], scopeOfKey: ReadonlyMap<string, string>): Map<string, Commit[]> {
  const parts = commits.flatMap((commit) =>
    [...grouped(commit.changes, (change) => scopeOf(change, scopeOfKey))].map(([scope, changes]) => ({
      scope,
      commit: { ...commit, changes },
    })),
  )
  const found = grouped(parts, ({ scope }) => scope)
  return new Map([...found].map(([scope, own]) => [scope, own.map(({ commit }) => commit)]))
}

function grouped<T>(items: readonly T[], nameOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const name = nameOf(item)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [item])
    else group.push(item)
  }
  return groups
}

function scopeOf({ before, after }: Change, scopeOfKey: ReadonlyMap<string, string>): string {
  const row: Row = after ?? before ?? {}
  const run = textIn(row, 'run')
  return (
    textIn(row, 'scope') ||
    textIn(row, 'rider') ||
    run.slice(0, run.lastIndexOf('/')) ||
    (scopeOfKey.get(textIn(row, 'key_id')) ?? '')
  )
}

function scopeIn(body: string, scopeOfKey: ReadonlyMap<string, string>): string {
  try {
    const { scope, keyId = '' } = JSON.parse(body) as { readonly scope?: string; readonly keyId?: string }
    return scope ?? scopeOfKey.get(keyId) ?? ''
  } catch {
    return ''
  }
}
