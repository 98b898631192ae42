import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT } from '../limits.js'
import { parseText, parseWholeNumber } from '../parse/value.js'
import { noDeadJobNamed, renderJobs } from '../render/jobs.js'
import { jobToJson } from '../render/to-json.js'

export const deadCommand = defineCommand({
  name: 'dead',
  summary: 'staged jobs that were given up, oldest first',
  args: [],
  options: {
    name: value('NAME', parseText, 'only jobs of this name'),
    limit: value('N', parseWholeNumber(1, MAX_LIST_LIMIT), `at most so many; default: ${DEFAULT_LIST_LIMIT}`),
    reveal: flag('print payloads, too'),
  },
  details: ['pawl show --id tells whose job it was; pawl requeue delivers them again.'],
  exits: { [EXIT.ok]: 'also when there are none, or some: pawl status tells that by its exit code' },
  async run({ options }, { paint, withDatabase }) {
    const { name, limit = DEFAULT_LIST_LIMIT, reveal } = options
    const jobs = await withDatabase(({ operator }) =>
      operator.deadJobs({ limit, ...(name !== undefined && { name }) }),
    )
    const none = name === undefined ? 'No job is dead.' : noDeadJobNamed(name)
    const lines = jobs.length === 0 ? [none] : [...renderJobs(jobs, { reveal, ofOneKey: false, paint })]
    if (jobs.length === limit) lines.push('', `These are the oldest ${limit}; there may be more: --limit.`)
    return { exit: EXIT.ok, lines, json: { jobs: jobs.map((job) => jobToJson(job, reveal)), limit } }
  },
})
