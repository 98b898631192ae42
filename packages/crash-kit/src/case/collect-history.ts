import type { Scene } from '../cast/scene.js'
import { type Change, type Commit, type History, type Leftovers } from '../history.js'

/** All that is known of the scene, without what belongs to other requests that ran beside it. */
export async function collectHistory(scene: Scene, completerRounds: number | null): Promise<History> {
  const { database, provider } = scene.theatre
  const commits = await database.commitsSince(scene.mark)
  const own = new Set(keyRows(commits, (key) => key === scene.key))
  const others = new Set(keyRows(commits, (key) => key !== scene.key))
  const otherJobs = new Set(jobsOf(commits, others))
  return {
    commits: commits
      .map((commit) => ({ ...commit, changes: commit.changes.filter((change) => !isOf(change, others)) }))
      .filter((commit) => commit.changes.length > 0 && !writesKeyOf(commit, commits, others, own)),
    calls: scene.calls,
    told: scene.told,
    deliveries: scene.deliveries.filter(({ id }) => !otherJobs.has(id)),
    leftovers: await findLeftovers(scene),
    requests: (provider?.history() ?? []).filter(({ actor }) => actor !== 'bystander'),
    completerRounds,
  }
}

async function findLeftovers(scene: Scene): Promise<Leftovers> {
  const { database, pools, rejections } = scene.theatre
  const backends = await database.backends()
  return {
    lostClients: pools.lostClients(),
    openTransactions: backends
      .filter(({ state }) => state?.startsWith('idle in transaction'))
      .map(({ actor, query }) => ({ actor, query })),
    unhandledRejections: rejections.splice(0),
  }
}

const rowOf = ({ before, after }: Change) => after ?? before

/** An id is text; what has none belongs to nothing. */
function idIn(change: Change, column: 'id' | 'key_id'): string {
  const id = rowOf(change)?.[column]
  return typeof id === 'string' ? id : ''
}

function keyRows(commits: readonly Commit[], wanted: (key: unknown) => boolean): string[] {
  return commits
    .flatMap(({ changes }) => changes)
    .filter((change) => isKeyChange(change) && wanted(rowOf(change)?.['key']))
    .map((change) => idIn(change, 'id'))
}

function isKeyChange({ framework, table }: Change): boolean {
  return framework && table === 'idempotency_keys'
}

/** Whether a row of the framework's belongs to one of these keys. */
function isOf(change: Change, keys: ReadonlySet<string>): boolean {
  return change.framework && keys.has(idIn(change, isKeyChange(change) ? 'id' : 'key_id'))
}

/** A transaction of another request: its business rows are not this one's either. */
function writesKeyOf(
  { transaction }: Commit,
  commits: readonly Commit[],
  others: ReadonlySet<string>,
  own: ReadonlySet<string>,
): boolean {
  const whole = commits.find((commit) => commit.transaction === transaction)?.changes ?? []
  return (
    whole.some((change) => isKeyChange(change) && isOf(change, others)) &&
    !whole.some((change) => isKeyChange(change) && isOf(change, own))
  )
}

function jobsOf(commits: readonly Commit[], keys: ReadonlySet<string>): string[] {
  return commits
    .flatMap(({ changes }) => changes)
    .filter((change) => change.table === 'staged_jobs' && isOf(change, keys))
    .map((change) => idIn(change, 'id'))
}
