import type { DeadJobs, Operator } from '@pawl/core'
import { MAX_PREVIEWED_JOBS } from '../limits.js'
import { invalid } from '../parse-query.js'

/** Which dead jobs a person asks for: never all of them at once, whatever they are. */
export type RequeuedJobs = Exclude<DeadJobs, { readonly all: true }>

/** What requeueing them would do, in a sentence. */
export async function sayRequeue(operator: Operator, which: RequeuedJobs): Promise<string> {
  const isByName = 'name' in which
  const dead = await operator.deadJobs({
    limit: MAX_PREVIEWED_JOBS,
    ...(isByName && { name: which.name }),
  })
  if (isByName) return `${counted(dead.length, dead.length === MAX_PREVIEWED_JOBS)} ${RESULT}`
  const ids = idsOf(which.jobIds)
  const found = dead.filter(({ jobId }) => ids.has(jobId)).length
  const rest = ids.size - found
  // Where there are more dead jobs than were read, the others may be among those.
  const others =
    rest === 0 || dead.length === MAX_PREVIEWED_JOBS
      ? ''
      : ` ${rest === 1 ? 'One is' : `${rest} are`} not dead any more, and stay as they are.`
  return `${counted(found, false)} ${RESULT}${others}`
}

const RESULT =
  'delivered again by a relay, with attempts counted from now, and under the same ids: whoever has handled one already can tell.'

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i

function idsOf(jobIds: unknown): ReadonlySet<string> {
  const isList =
    Array.isArray(jobIds) &&
    jobIds.length > 0 &&
    jobIds.every((id) => typeof id === 'string' && UUID.test(id))
  if (isList) return new Set(jobIds as readonly string[])
  throw invalid('jobIds has to be a list of the ids of dead jobs.')
}

function counted(count: number, isAtLeast: boolean): string {
  if (count === 1) return 'One dead job is'
  return `${count === 0 ? 'No' : count}${isAtLeast ? ' or more' : ''} dead jobs are`
}
