import type { KitDatabase } from '../../../packages/crash-kit/src/database/kit-database.js'
import { kitSchemasOf } from '../../../packages/crash-kit/src/database/kit-schemas.js'
import type { Commit, Violation } from '../../../packages/crash-kit/src/history.js'
import { advancesIn } from '../../../packages/crash-kit/src/oracle/key-writes.js'
import type { PipelinePlan } from '../pipelines/pipeline-plan.js'

/** Checks I15 by the database's own evidence: the rows that are there, and the commits in the audit. */
export async function transactionEvidence(
  database: KitDatabase,
  commits: readonly Commit[],
  plan: PipelinePlan,
): Promise<Violation[]> {
  return [...(await rowsOfNoMove(database, commits)), ...rowsOfAnotherPhase(commits, plan)]
}

/**
 * Every row that is there carries, as its `xmin`, the id of a transaction that moved the recovery point. After a savepoint
 * it is the id of a part of the transaction; the audit has both `xmin` and transaction of each write.
 */
async function rowsOfNoMove(database: KitDatabase, commits: readonly Commit[]): Promise<Violation[]> {
  const { audit } = kitSchemasOf(database.id)
  const movers = commits
    .filter((commit) => advancesIn(commit).length > 0)
    .map(({ transaction }) => transaction)
  const { rows } = await database.admin.query<{ table_name: string; xmin: string; what: string }>(
    `WITH present (table_name, xmin, what) AS (
       SELECT 'facts', xmin, phase || ' ' || n FROM ${database.schema}.facts
       UNION ALL SELECT 'totals', xmin, name FROM ${database.schema}.totals
       UNION ALL SELECT 'effects', xmin, phase FROM ${database.pawlSchema}.effects
       UNION ALL SELECT 'staged_jobs', xmin, name FROM ${database.pawlSchema}.staged_jobs)
     SELECT table_name, xmin::text, what FROM present AS p
      WHERE NOT EXISTS (SELECT FROM ${audit}.history AS h
                         WHERE h.transaction = ANY ($1::xid8[]) AND h.table_name = p.table_name AND h.row_xmin = p.xmin)`,
    [movers],
  )
  return rows.map(({ table_name, xmin, what }) =>
    violation(
      `The row of ${table_name} (${what}) was written by transaction ${xmin}, ` +
        `and the recovery point was moved by ${movers.length === 0 ? 'none' : movers.join(', ')}.`,
    ),
  )
}

/** A fact names the phase that wrote it, and no other phase's transaction may have it. */
function rowsOfAnotherPhase(commits: readonly Commit[], { phases }: PipelinePlan): Violation[] {
  const names = phases.map(({ name }) => name)
  return commits.flatMap((commit) =>
    advancesIn(commit).flatMap(({ before, after: moved, commit: { transaction } }) => {
      const reached = moved.trail.slice(before.trail.length).map(({ p }) => p)
      const points = reached.filter((point) => point !== 'finished')
      const last = points.at(-1) ?? before.recoveryPoint
      // Whoever answers is not in the trail by its own name.
      const answering = names[names.indexOf(last) + 1] ?? 'finished'
      const own = new Set<unknown>(reached.includes('finished') ? [...points, answering] : points)
      const others = commit.changes.filter(
        ({ table, after }) => table === 'facts' && after !== null && !own.has(after['phase']),
      )
      return others.map(({ after }) =>
        violation(
          `Transaction ${transaction} moved '${[...own].join("', '")}', and has a row of ${JSON.stringify(after?.['phase'])}.`,
        ),
      )
    }),
  )
}

function violation(detail: string): Violation {
  return {
    rule: 'I15',
    title: 'every row carries the transaction id that its recovery point was committed with',
    detail,
  }
}
