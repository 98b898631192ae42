/**
 * How much of what is repeated: random cases, races, faults. `npm test` runs what meets every kind of case,
 * `npm run test:deep` runs what takes minutes. A variable of the environment overrides both.
 */
interface Amount {
  readonly variable: string
  readonly shallow: number
  readonly deep: number
}

/** `npm run test:deep` sets it. */
export const IS_DEEP = process.env['PAWL_DEEP'] === '1'

export const AMOUNTS = {
  /** Cases per property. Those with a database take a part of it. */
  runs: { variable: 'PAWL_RUNS', shallow: 100, deep: 1_000 },
  /** Random pipelines with faults, each a few requests, crashes and recoveries. */
  pipelineRuns: { variable: 'PAWL_RUNS', shallow: 30, deep: 250 },
  /** Races of the ride under the crash kit, for each of its kits. */
  races: { variable: 'PAWL_RACES', shallow: 5, deep: 150 },
  /** Of so many positions of the ride, one is where a process is killed, with SIGKILL. */
  oneKillIn: { variable: 'PAWL_ONE_KILL_IN', shallow: 5, deep: 1 },
  /** 1: all faults at every message, for every way to send statements. 0: one at each, in turn. */
  wireAll: { variable: 'PAWL_WIRE_ALL', shallow: 0, deep: 1 },
  /** Random pipelines whose messages are struck at random. */
  wireCases: { variable: 'PAWL_WIRE_CASES', shallow: 12, deep: 200 },
  /** Races of messages, of the ride and of random pipelines. */
  wireRaces: { variable: 'PAWL_WIRE_RACES', shallow: 6, deep: 100 },
  /** Faults of the soak. */
  soakFaults: { variable: 'PAWL_SOAK_FAULTS', shallow: 100, deep: 4_000 },
  /** Jobs through relay processes that are killed again and again. */
  relayJobs: { variable: 'PAWL_RELAY_JOBS', shallow: 3_600, deep: 20_000 },
  /** Expired keys that are deleted while requests run. */
  reapKeys: { variable: 'PAWL_REAP_KEYS', shallow: 5_000, deep: 100_000 },
  /** Faults of a case in the example's own crash test: 2 is a second one in the recovery from the first. */
  exampleDepth: { variable: 'RIDES_DEPTH', shallow: 1, deep: 2 },
  /** Races there. */
  exampleRaces: { variable: 'RIDES_RACES', shallow: 10, deep: 100 },
  /** Rides of the demo's chaos. */
  chaosRides: { variable: 'RIDES_CHAOS', shallow: 12, deep: 200 },
} as const satisfies Record<string, Amount>

/** As the environment says, or as deep as this run is. */
export function amountOf(name: keyof typeof AMOUNTS): number {
  const { variable, shallow, deep } = AMOUNTS[name]
  return wholeNumber(variable, IS_DEEP ? deep : shallow, 0, Number.MAX_SAFE_INTEGER)
}

/** What fast-check takes as a seed: a signed 32-bit number. */
const MAX_SEED = 0x7fff_ffff

/** Any number does; fixed, so that a run of the tests is the same everywhere. */
const DEFAULT_SEED = 20_170_927

/** Where random cases come from: the same seed gives the same ones. */
export const SEED = wholeNumber('PAWL_SEED', DEFAULT_SEED, -MAX_SEED - 1, MAX_SEED)

/** The line that runs a file again as it ran now. The amount is part of it: the first cases may not get there. */
export function replayLine(file: string, name: keyof typeof AMOUNTS): string {
  const { variable, shallow } = AMOUNTS[name]
  const amount = amountOf(name)
  return `${amount === shallow ? '' : `${variable}=${amount} `}PAWL_SEED=${SEED} npm test -- ${file}`
}

function wholeNumber(variable: string, whenMissing: number, least: number, most: number): number {
  const given = process.env[variable] ?? ''
  if (given === '') return whenMissing
  const value = Number(given)
  if (!Number.isInteger(value) || value < least || value > most)
    throw new Error(`${variable} is '${given}'; it takes a whole number from ${least} to ${most}.`)
  return value
}
