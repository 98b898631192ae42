import { parseArgs } from 'node:util'
import { type ContenderName, contenderNames } from './contenders/registry.js'
import { type ScenarioName, scenarioNames } from './scenarios/all.js'
import type { Mode } from './scenarios/scenario.js'

/** What was asked for on the command line. */
export interface Arguments {
  readonly mode: Mode
  readonly scenarios: readonly ScenarioName[]
  readonly contenders: readonly ContenderName[]
  readonly json: boolean
  /** A file for the chart. */
  readonly chart: string | null
  readonly help: boolean
}

export const USAGE = `npm run bench -- [options]

  --quick               under three minutes: shorter and fewer rounds, growth up to 100 thousand keys
  --only <list>         scenarios, separated by commas: ${scenarioNames.join(', ')}
  --contenders <list>   contenders, separated by commas: ${contenderNames.join(', ')}
  --json                the report as JSON, and nothing else, on the standard output
  --chart <file.svg>    draws fresh requests and the slow provider
  --help                print this

DATABASE_URL: measure on that server, instead of starting one. A database is created there, and dropped at the end.
REDIS_URL: use that Redis, instead of starting one. Its values expire within an hour.
ABSURD_SQL: the schema file of Absurd. Without it, absurd does not take part.
`

/** Throws a sentence for people where the command line is wrong. */
export function readArguments(argv: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      contenders: { type: 'string' },
      json: { type: 'boolean', default: false },
      chart: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  return {
    mode: values.quick ? 'quick' : 'full',
    scenarios: readList('--only', values.only, scenarioNames),
    contenders: readList('--contenders', values.contenders, contenderNames),
    json: values.json,
    chart: readChart(values.chart),
    help: values.help,
  }
}

function readList<Name extends string>(
  option: string,
  text: string | undefined,
  known: readonly Name[],
): Name[] {
  if (text === undefined) return [...known]
  const wanted = text.split(',').map((name) => name.trim())
  const unknown = wanted.find((name) => !(known as readonly string[]).includes(name))
  if (unknown !== undefined) {
    throw new TypeError(`${option}: there is no '${unknown}'; it takes ${known.join(', ')}.`)
  }
  // In the order of the list, and each once.
  return known.filter((name) => wanted.includes(name))
}

function readChart(file: string | undefined): string | null {
  if (file === undefined) return null
  if (file.endsWith('.svg')) return file
  throw new TypeError(`--chart is '${file}'; it takes the name of a file that ends in .svg.`)
}
