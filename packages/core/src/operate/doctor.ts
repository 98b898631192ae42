import { checkKnownOptions, invalidOption, type OptionOwner } from '../check-option.js'
import { OVERDUE_MS } from '../limits.js'
import type { AnyPipeline } from '../pipeline/pipeline.js'
import { Registry } from '../pipeline/registry.js'
import { readIndexes } from '../storage/schema/read-indexes.js'
import { DEFAULT_LAYOUT } from '../storage/schema/layout.js'
import { readLayout } from '../storage/schema/read-layout.js'
import { readReferences } from '../storage/schema/read-references.js'
import { readServer } from '../storage/schema/read-server.js'
import { readTableCare } from '../storage/schema/read-table-care.js'
import { readVersion } from '../storage/schema/read-version.js'
import { SCHEMA_VERSION } from '../storage/schema/migrate.js'
import { isNotMigrated } from '../storage/schema/not-migrated.js'
import { countRows } from '../storage/keys/count-rows.js'
import { findOverdue } from '../storage/keys/find-overdue.js'
import { findVersions } from '../storage/keys/find-versions.js'
import { groupStuck } from '../storage/keys/group-stuck.js'
import { isFirstOnPath } from '../storage/schema/search-path.js'
import { readSession } from '../storage/schema/read-session.js'
import type { Store } from '../storage/statement.js'
import {
  judgeClock,
  judgeDurability,
  judgeIsolation,
  judgePool,
  judgeTimeouts,
  judgeVersion,
} from './judge-server.js'
import { judgeBloat, judgeIndexes, judgeReferences, judgeSchema, judgeSearchPath } from './judge-schema.js'
import { judgeUnattended, judgeJobs, judgeStuck, judgeVersions } from './judge-work.js'
import type { Finding } from './operator.js'
import type { OperatorContext } from './operator-context.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'doctor' }

/** Looks at the server, the schema and the work that waits, and says what is wrong with each. */
export async function doctor(
  context: OperatorContext,
  options: { readonly pipelines?: readonly AnyPipeline<never>[] },
): Promise<readonly Finding[]> {
  checkKnownOptions(OWNER, options, ['pipelines'])
  const { pipelines } = options
  if (pipelines !== undefined && !Array.isArray(pipelines))
    throw invalidOption(OWNER, 'pipelines', pipelines, 'a list of pipelines')
  const registry = pipelines === undefined ? null : new Registry(pipelines)
  return context.with(async (store) => {
    const server = await examineServer(context, store)
    const version = await readVersion(store)
    const layout = (await readLayout(store)) ?? DEFAULT_LAYOUT
    const schema = judgeSchema(version, context.tables, layout)
    // With tables of another version, the queries below would fail instead of finding something.
    if (version !== SCHEMA_VERSION) return [schema, ...server]
    try {
      return [schema, ...server, ...(await examineTables(context, store, registry))]
    } catch (error) {
      if (!isNotMigrated(error)) throw error
      return [judgeSchema('damaged', context.tables, layout), ...server]
    }
  })
}

async function examineServer({ pool }: OperatorContext, store: Store): Promise<Finding[]> {
  const askedMs = Date.now()
  const facts = await readServer(store)
  const answeredMs = Date.now()
  const session = await readSession(store)
  return [
    judgeVersion(session),
    judgeSearchPath(store, session.role, await isFirstOnPath(store, session)),
    judgeClock(facts.nowMs, askedMs, answeredMs),
    ...judgeDurability(facts.settings),
    ...judgeIsolation(facts.settings, facts.inRecovery),
    judgePool(facts, { max: pool.options.max, open: pool.totalCount }),
    ...judgeTimeouts(facts.settings),
  ]
}

async function examineTables(
  { tables }: OperatorContext,
  store: Store,
  registry: Registry | null,
): Promise<Finding[]> {
  const { waiting, dead, oldestDueMs } = await countRows(store)
  return [
    ...judgeIndexes(await readIndexes(store), tables),
    ...judgeVersions(await findVersions(store), registry),
    judgeUnattended(await findOverdue(store, OVERDUE_MS)),
    ...judgeJobs({ waiting, dead, oldestDueMs }),
    judgeStuck(await groupStuck(store)),
    ...judgeReferences(await readReferences(store)),
    judgeBloat(await readTableCare(store), tables),
  ]
}
