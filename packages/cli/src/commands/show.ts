import { defineCommand, flag } from '../command.js'
import { EXIT } from '../exit-code.js'
import { keyArguments, keyOptions, keyReferenceOf, noSuchKey } from '../key-arguments.js'
import { renderKeyReport } from '../render/key-report.js'
import { reportToJson } from '../render/to-json.js'

export const showCommand = defineCommand({
  name: 'show',
  summary: 'one key: its row, timeline, last error, effects, jobs, interventions',
  args: keyArguments,
  options: {
    ...keyOptions,
    reveal: flag('also print inputs, states, payloads, header values and bodies'),
  },
  details: [
    'The timeline says when each recovery point was reached, how long after the previous one, and under which fence. A fence that grew means that another holder took over, that a person intervened, or that the answer to a COMMIT was lost.',
    'What clients sent and received is redacted, because terminals are recorded and shared. --reveal prints it.',
  ],
  exits: { [EXIT.failed]: 'there is no such key' },
  async run({ args, options }, { paint, withDatabase }) {
    const of = keyReferenceOf(args, options)
    const { report, now } = await withDatabase(async (database) => ({
      report: await database.operator.show(of),
      now: await database.now(),
    }))
    if (report === null) throw noSuchKey(of)
    const { reveal } = options
    return {
      exit: EXIT.ok,
      lines: renderKeyReport(report, { now, reveal, paint }),
      json: reportToJson(report, reveal),
    }
  },
})
