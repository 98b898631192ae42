import { type Change, type Commit, type History, KIT, type Violation } from '../history.js'
import { textIn } from './key-state.js'
import { advancesIn } from './key-writes.js'

/** I13: a job is staged with its phase, and delivered under its id before it is deleted. */
export function stagedJobs(history: History): Violation[] {
  return [...stagedWithPhase(history), ...delivered(history), ...wereStaged(history)]
}

const violation = (title: string, detail: string): Violation => ({ rule: 'I13', title, detail })

interface Staged {
  readonly commit: Commit
  readonly id: string
  readonly name: string
  readonly keyId: string
}

function isJobChange({ framework, table }: Change): boolean {
  return framework && table === 'staged_jobs'
}

function stagedIn({ commits }: History): Staged[] {
  return commits.flatMap((commit) =>
    commit.changes.filter(isJobChange).flatMap(({ op, after }) => {
      if (op !== 'INSERT' || after === null || commit.actor === KIT) return []
      return [
        { commit, id: textIn(after, 'id'), name: textIn(after, 'name'), keyId: textIn(after, 'key_id') },
      ]
    }),
  )
}

function stagedWithPhase(history: History): Violation[] {
  return stagedIn(history).flatMap(({ commit, id, name, keyId }) => {
    const moved = advancesIn(commit).map(({ after }) => after.id)
    if (moved.includes(keyId)) return []
    const detail = `${commit.actor} staged ${name} (${id}) in a transaction that did not move the key ${keyId}.`
    return [violation('a job is staged in the transaction of its phase', detail)]
  })
}

function delivered(history: History): Violation[] {
  const ids = new Set(history.deliveries.map(({ id }) => id))
  return stagedIn(history)
    .filter(({ id }) => !ids.has(id))
    .map(({ id, name }) => {
      const by = whoDeleted(history, id)
      const end = by === null ? 'but never delivered' : `but ${by} deleted it before it was delivered`
      return violation(
        'a staged job is delivered at least once',
        `The job ${name} (${id}) was staged, ${end}.`,
      )
    })
}

function whoDeleted({ commits }: History, jobId: string): string | null {
  const found = commits.find(({ changes }) =>
    changes.some(
      (change) =>
        isJobChange(change) &&
        change.op === 'DELETE' &&
        change.before !== null &&
        textIn(change.before, 'id') === jobId,
    ),
  )
  return found?.actor ?? null
}

function wereStaged(history: History): Violation[] {
  const names = new Map(stagedIn(history).map(({ id, name }) => [id, name]))
  return history.deliveries.flatMap(({ id, name }) => {
    const stagedAs = names.get(id)
    if (stagedAs === name) return []
    const was = stagedAs === undefined ? 'no committed phase staged it' : `it was staged as ${stagedAs}`
    return [violation('only staged jobs are delivered', `The job ${name} (${id}) was delivered, but ${was}.`)]
  })
}
