import { usageError } from '../cli-error.js'
import { defineCommand, required, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { parseBytes } from '../parse/bytes.js'
import { parseDuration } from '../parse/duration.js'
import { parseOneOf, parseWholeNumber } from '../parse/value.js'
import { renderSize } from '../render/size.js'
import { advise, boundsOf } from '../size/advise.js'
import { SIZE_CONSTANTS } from '../size/constants.js'
import { estimate, type Workload } from '../size/estimate.js'

const MAX_RATE = 10_000_000
const MAX_PHASES = 100
const MAX_REPLAY_PERCENT = 100_000
const MAX_CORES = 1_024

const DAY_MS = 86_400_000

/** A ride: a row, a charge, and a receipt, answered with a few hundred bytes. */
const DEFAULTS = {
  retentionMs: DAY_MS,
  effectRetentionMs: 400 * DAY_MS,
  bytes: 500,
  locals: 1,
  calls: 1,
  jobs: 1,
  replays: 0,
  commits: 'each',
  roundTripMs: 1,
  cores: 16,
  memoryBytes: 64e9,
  logBytesPerSecond: 200e6,
} as const

export const sizeCommand = defineCommand({
  name: 'size',
  summary: 'what a rate of requests takes: disk, log, vacuum, connections; needs no database',
  args: [],
  options: {
    rate: required('N', parseWholeNumber(1, MAX_RATE), 'new requests per second'),
    retention: value('DURATION', parseDuration, 'how long keys are kept (retentionMs); default: 24h'),
    'effect-retention': value('DURATION', parseDuration, 'how long effects are kept; default: 400d'),
    body: value('BYTES', parseBytes, 'the response’s body; default: 500B'),
    input: value('BYTES', parseBytes, 'what a request sends; default: 500B'),
    locals: value('N', parseWholeNumber(0, MAX_PHASES), 'local phases before the last; default: 1'),
    calls: value('N', parseWholeNumber(0, MAX_PHASES), 'foreign phases; default: 1'),
    jobs: value('N', parseWholeNumber(0, MAX_PHASES), 'staged jobs; default: 1'),
    replays: value(
      'PERCENT',
      parseWholeNumber(0, MAX_REPLAY_PERCENT),
      'replays for every 100 new requests; default: 0',
    ),
    commits: value('HOW', parseOneOf(['each', 'fewest']), 'as the pipeline has it; default: each'),
    'round-trip': value('DURATION', parseDuration, 'from the service to the database and back; default: 1ms'),
    cores: value('N', parseWholeNumber(1, MAX_CORES), 'cores of the database server; default: 16'),
    memory: value('BYTES', parseBytes, 'its memory; default: 64GB'),
    'log-bandwidth': value('BYTES', parseBytes, 'log that it can write and send per second; default: 200MB'),
  },
  details: [
    'Reckons with what was measured on one machine, for tables without partitions. Your own rows, indexes and queries come on top. docs/beyond-one-machine.md says what each number means and what to do when one server is not enough. With --json, the constants are printed as well, each with where it comes from.',
  ],
  exits: {},
  async run({ options }, { paint }) {
    const load: Workload = {
      rate: options.rate,
      replayRate: (options.rate * (options.replays ?? DEFAULTS.replays)) / 100,
      retentionSeconds: (options.retention ?? DEFAULTS.retentionMs) / 1_000,
      effectRetentionSeconds: (options['effect-retention'] ?? effectRetentionMs(options.retention)) / 1_000,
      inputBytes: options.input ?? DEFAULTS.bytes,
      bodyBytes: options.body ?? DEFAULTS.bytes,
      locals: options.locals ?? DEFAULTS.locals,
      calls: options.calls ?? DEFAULTS.calls,
      jobs: options.jobs ?? DEFAULTS.jobs,
      commits: options.commits ?? DEFAULTS.commits,
      roundTripMs: options['round-trip'] ?? DEFAULTS.roundTripMs,
    }
    checkLoad(load)
    const server = {
      cores: options.cores ?? DEFAULTS.cores,
      memoryBytes: atLeastOneByte('memory', options.memory ?? DEFAULTS.memoryBytes),
      logBytesPerSecond: atLeastOneByte(
        'log-bandwidth',
        options['log-bandwidth'] ?? DEFAULTS.logBytesPerSecond,
      ),
    }
    const result = estimate(load)
    const bounds = boundsOf(load, result, server)
    const advice = advise(result, bounds)
    return {
      exit: EXIT.ok,
      lines: renderSize(load, result, bounds, advice, paint),
      json: { load, server, estimate: result, bounds, advice, constants: SIZE_CONSTANTS },
    }
  },
})

/** As the reaper does it: never shorter than the keys. */
function effectRetentionMs(retentionMs: number | undefined): number {
  return Math.max(DEFAULTS.effectRetentionMs, retentionMs ?? 0)
}

function checkLoad({ retentionSeconds, effectRetentionSeconds }: Workload): void {
  if (retentionSeconds === 0) throw usageError('--retention: it has to be longer than nothing.')
  if (effectRetentionSeconds < retentionSeconds) {
    throw usageError('--effect-retention: effects cannot be kept for a shorter time than keys.')
  }
}

function atLeastOneByte(option: string, bytes: number): number {
  if (bytes < 1) throw usageError(`--${option}: it has to be more than nothing.`)
  return bytes
}
