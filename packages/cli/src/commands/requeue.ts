import type { DeadJobs } from '@pawl/core'
import { becauseOf, becauseOptions } from '../because.js'
import { CliError, usageError } from '../cli-error.js'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { counted } from '../render/counted.js'
import { noDeadJobNamed } from '../render/jobs.js'
import { isUuid } from '@pawl/core/internal'
import { parseText } from '../parse/value.js'

export const requeueCommand = defineCommand({
  name: 'requeue',
  summary: 'deliver dead jobs again, as if they were new',
  args: [{ name: 'job-id', count: 'many' }],
  options: {
    ...becauseOptions,
    name: value('NAME', parseText, 'all dead jobs with this name'),
    all: flag('all dead jobs'),
  },
  details: [
    'Say which jobs in exactly one way: by ids, by --name or by --all. First fix what made them fail.',
  ],
  exits: {
    [EXIT.failed]: 'ids were given, and none of them is a dead job',
    [EXIT.findings]: 'ids were given, and some of them are not dead jobs; the others are requeued',
  },
  async run({ args, options }, context) {
    const jobs = whichOf(args, options)
    const because = becauseOf(options, context)
    const requeued = await context.withDatabase(({ operator }) => operator.requeue(jobs, because))
    const wanted = 'jobIds' in jobs ? jobs.jobIds.length : requeued
    if (wanted > 0 && requeued === 0)
      throw new CliError('not_found', 'None of these is a dead job. Nothing was changed.')
    const lines = [`Requeued ${counted(requeued, 'job')}.`]
    if (requeued === 0 && 'name' in jobs) lines.push(noDeadJobNamed(jobs.name))
    if (requeued < wanted)
      lines.push(`${wanted - requeued} of the given ids are not dead jobs, and were left alone.`)
    return {
      exit: requeued < wanted ? EXIT.findings : EXIT.ok,
      lines,
      json: { requeued, notDead: wanted - requeued },
    }
  },
})

function whichOf(
  args: readonly string[],
  { name, all }: { readonly name: string | undefined; readonly all: boolean },
): DeadJobs {
  const ways = [args.length > 0, name !== undefined, all].filter(Boolean).length
  if (ways !== 1) throw usageError('Say which jobs in exactly one way: <job-id>…, --name NAME or --all.')
  if (name !== undefined) return { name }
  if (all) return { all: true }
  const wrong = args.find((id) => !isUuid(id))
  if (wrong !== undefined) throw usageError(`'${wrong}' is not the id of a job; pawl dead lists the ids.`)
  return { jobIds: [...new Set(args)] }
}
