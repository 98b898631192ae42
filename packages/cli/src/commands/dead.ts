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
    name: value('NAME', parseText, 'only jobs with this name'),
    limit: value(
      'N',
      parseWholeNumber(1, MAX_LIST_LIMIT),
      `at most this many; default: ${DEFAULT_LIST_LIMIT}`,
    ),
    reveal: flag('also print payloads'),
  },
  details: ['pawl show --id shows the key that staged a job; pawl requeue delivers jobs again.'],
  exits: { [EXIT.ok]: 'whether there are any or not; pawl status reports that by its exit code' },
  async run({ options }, { paint, withDatabase }) {
    const { name, limit = DEFAULT_LIST_LIMIT, reveal } = options
    const jobs = await withDatabase(({ operator }) =>
      operator.deadJobs({ limit, ...(name !== undefined && { name }) }),
    )
    const none = name === undefined ? 'No job is dead.' : noDeadJobNamed(name)
    const lines = jobs.length === 0 ? [none] : [...renderJobs(jobs, { reveal, ofOneKey: false, paint })]
    if (jobs.length === limit)
      lines.push('', `These are the oldest ${limit}; there may be more. Raise --limit to see them.`)
    return { exit: EXIT.ok, lines, json: { jobs: jobs.map((job) => jobToJson(job, reveal)), limit } }
  },
})
