import {
  type Change,
  type Commit,
  type History,
  KIT,
  type PipelineShape,
  type Violation,
} from '../../packages/crash-kit/src/history.js'
import { textIn } from '../../packages/crash-kit/src/oracle/key-state.js'
import { advancesIn } from '../../packages/crash-kit/src/oracle/key-writes.js'
import { businessChanges } from '../../packages/crash-kit/src/oracle/phase-changes.js'

/**
 * I15: every row that a phase writes was written by the transaction that committed its recovery point. This is read from
 * what the triggers recorded of each row, with the server's own transaction id. Nothing here comes from the engine.
 */
export function ownTransaction({ commits }: Pick<History, 'commits'>, shape: PipelineShape): Violation[] {
  return commits
    .filter(({ actor }) => actor !== KIT)
    .flatMap((commit) =>
      [...businessChanges(commit), ...insertedJobs(commit)].flatMap((change) => {
        const wrong = complaintOf(commit, change, shape)
        return wrong === null ? [] : [violation(commit, change, wrong)]
      }),
    )
}

function complaintOf(commit: Commit, change: Change, { points }: PipelineShape): string | null {
  const advances = advancesIn(commit)
  const [advance] = advances
  if (advance === undefined) return 'which committed no recovery point'
  if (advances.length > 1) return `which committed recovery points of ${advances.length} keys`
  const phase = textIn(change.after ?? change.before ?? {}, 'phase')
  if (phase === '') return null
  const [from, at, to] = [advance.before.recoveryPoint, phase, advance.after.recoveryPoint].map((point) =>
    points.indexOf(point),
  ) as [number, number, number]
  return from < at && at <= to
    ? null
    : `which took the key from '${advance.before.recoveryPoint}' to '${advance.after.recoveryPoint}'`
}

function insertedJobs({ changes }: Commit): Change[] {
  return changes.filter(({ framework, table, op }) => framework && table === 'staged_jobs' && op === 'INSERT')
}

function violation(
  { transaction, actor }: Commit,
  { table, op, after, before }: Change,
  wrong: string,
): Violation {
  return {
    rule: 'I15',
    title: 'a row that a phase writes is of the transaction that committed its recovery point',
    detail: `${actor}: ${op} in ${table} (${JSON.stringify(after ?? before)}) by transaction ${transaction}, ${wrong}.`,
  }
}
