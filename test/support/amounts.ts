/**
 * How often everything is repeated: random cases, races, faults. `npm test` runs enough to meet every kind of case, and
 * `npm run test:deep` runs for minutes. A variable of the environment overrides both.
 */
interface Amount {
  readonly variable: string
  readonly shallow: number
  readonly deep: number
}

/** `npm run test:deep` sets it. */
export const IS_DEEP = process.env['PAWL_DEEP'] === '1'

/**
 * For tests that start processes or servers, or search at length: end-to-end versions of what quicker tests already show.
 * `npm test` does not run them.
 */
export function onlyDeep(register: () => void): void {
  if (IS_DEEP) register()
}

/** All of these cases in a deep run, and the first few otherwise. */
export function firstUnlessDeep<T>(count: number, cases: readonly T[]): readonly T[] {
  return IS_DEEP ? cases : cases.slice(0, count)
}

export const AMOUNTS = {
  /** Cases per property. Properties with a database run a part of them. */
  runs: { variable: 'PAWL_RUNS', shallow: 50, deep: 300 },
  /** Random pipelines with faults, each a few requests, crashes and recoveries. */
  pipelineRuns: { variable: 'PAWL_RUNS', shallow: 12, deep: 160 },
  /** Races of the ride under the crash kit, for each of its kits. */
  races: { variable: 'PAWL_RACES', shallow: 3, deep: 20 },
  /** A process is killed with SIGKILL at one position of the ride in this many. */
  oneKillIn: { variable: 'PAWL_ONE_KILL_IN', shallow: 12, deep: 1 },
  /** 1 means all faults at every message, for every way to send statements. 0 means one fault at some, in turn. */
  wireAll: { variable: 'PAWL_WIRE_ALL', shallow: 0, deep: 1 },
  /** Random pipelines whose messages are struck at random. */
  wireCases: { variable: 'PAWL_WIRE_CASES', shallow: 6, deep: 60 },
  /** Races of messages, of the ride and of random pipelines. */
  wireRaces: { variable: 'PAWL_WIRE_RACES', shallow: 6, deep: 30 },
  /** Faults of the soak. */
  soakFaults: { variable: 'PAWL_SOAK_FAULTS', shallow: 50, deep: 1_000 },
  /** Jobs through relay processes that are killed again and again. */
  relayJobs: { variable: 'PAWL_RELAY_JOBS', shallow: 1_000, deep: 12_000 },
  /** Expired keys that are deleted while requests run. */
  reapKeys: { variable: 'PAWL_REAP_KEYS', shallow: 3_000, deep: 25_000 },
  /** Faults of a case in the example's own crash test: 2 adds another in the recovery from the first. */
  exampleDepth: { variable: 'RIDES_DEPTH', shallow: 1, deep: 1 },
  /** Races in the example's own crash test. */
  exampleRaces: { variable: 'RIDES_RACES', shallow: 3, deep: 20 },
  /** Rides of the demo's chaos. */
  chaosRides: { variable: 'RIDES_CHAOS', shallow: 12, deep: 50 },
} as const satisfies Record<string, Amount>

/** Returns what the environment says, or else the amount for this kind of run. */
export function amountOf(name: keyof typeof AMOUNTS): number {
  const { variable, shallow, deep } = AMOUNTS[name]
  return wholeNumber(variable, IS_DEEP ? deep : shallow, 0, Number.MAX_SAFE_INTEGER)
}

/** What fast-check takes as a seed: a signed 32-bit number. */
const MAX_SEED = 0x7fff_ffff

/** Any number would do. It is fixed, so that a run of the tests is the same everywhere. */
const DEFAULT_SEED = 20_170_927

/** Where random cases come from: the same seed leads to the same cases. */
export const SEED = wholeNumber('PAWL_SEED', DEFAULT_SEED, -MAX_SEED - 1, MAX_SEED)

/** `PAWL_GUARDS` and `PAWL_LAYOUT` select other engines and other tables for the same cases. */
const SELECTING = ['PAWL_GUARDS', 'PAWL_LAYOUT']

/** The line that runs a file again as it ran now. The amount is part of it, because fewer cases may not get as far. */
export function replayLine(file: string, name: keyof typeof AMOUNTS): string {
  const { variable, shallow } = AMOUNTS[name]
  const amount = amountOf(name)
  const selecting = SELECTING.flatMap((each) =>
    process.env[each] === undefined ? [] : [`${each}=${process.env[each]} `],
  ).join('')
  return `${selecting}${amount === shallow ? '' : `${variable}=${amount} `}PAWL_SEED=${SEED} npm test -- ${file}`
}

function wholeNumber(variable: string, whenMissing: number, least: number, most: number): number {
  const given = process.env[variable] ?? ''
  if (given === '') return whenMissing
  const value = Number(given)
  if (!Number.isInteger(value) || value < least || value > most)
    throw new Error(`${variable} is '${given}'; it takes a whole number from ${least} to ${most}.`)
  return value
}
