/** Enough to meet every kind of case, and a few seconds for all files together. */
export const DEFAULT_RUNS = 200

/** Any number does; fixed, so that a run of the tests is the same everywhere. */
const DEFAULT_SEED = 20_170_927

/** What fast-check takes as a seed: a signed 32-bit number. */
const MAX_SEED = 0x7fff_ffff

/** Cases per property. */
export const RUNS = read('PAWL_RUNS', DEFAULT_RUNS, 1, Number.MAX_SAFE_INTEGER)

/** Where the cases come from: the same seed gives the same ones. */
export const SEED = read('PAWL_SEED', DEFAULT_SEED, -MAX_SEED - 1, MAX_SEED)

function read(name: 'PAWL_RUNS' | 'PAWL_SEED', whenMissing: number, least: number, most: number): number {
  const given = process.env[name] ?? ''
  if (given === '') return whenMissing
  const value = Number(given)
  if (!Number.isInteger(value) || value < least || value > most)
    throw new Error(`${name} is '${given}'; it takes a whole number from ${least} to ${most}.`)
  return value
}
