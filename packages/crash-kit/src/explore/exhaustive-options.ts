import {
  checkKnownOptions,
  checkOneOf,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import { type FaultName, FAULTS } from '../faults/faults.js'
import { crash } from '../faults/crash.js'
import type { Fault } from '../faults/fault.js'

/** What is tried, and how deeply. */
export interface ExhaustiveOptions {
  /** Names of faults, or faults of your own. Default: all except `failover`. */
  readonly faults?: readonly (FaultName | Fault)[]
  /** With 1, each case has one fault; with 2, also a second one anywhere in the recovery from the first. Default 1. */
  readonly depth?: 1 | 2
  /**
   * With `process`, each crash is the end of a real process, by SIGKILL. Only `crash` can strike there, and crashKit needs a `child`.
   * Default `in-process`.
   */
  readonly mode?: Mode
}

/** Where faults strike: an engine in this process, or a child process. */
export type Mode = 'in-process' | 'process'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'exhaustive' }
const NAMES = Object.keys(FAULTS) as FaultName[]

/**
 * Not every pipeline survives these, because Pawl cannot promise it: acknowledged commits are lost, and with them ids that the
 * database generated and the provider was sent.
 */
const ONLY_BY_NAME: ReadonlySet<FaultName> = new Set(['failover'])

/** These are part of every run. They cause no crash, but find what a crash would take away. */
const LINTS: readonly FaultName[] = ['memory']

export function readExhaustiveOptions(
  options: ExhaustiveOptions,
  { hasProvider, hasChild }: { readonly hasProvider: boolean; readonly hasChild: boolean },
): { readonly faults: readonly Fault[]; readonly depth: number; readonly mode: Mode } {
  checkKnownOptions(OWNER, options, ['faults', 'depth', 'mode'])
  const { depth = 1, mode = 'in-process' } = options
  checkWholeNumber(OWNER, 'depth', depth, 1, 2)
  checkOneOf(OWNER, 'mode', mode, ['in-process', 'process'])
  if (mode === 'process') return { faults: faultsOfProcesses(options.faults, hasChild), depth, mode }
  if (options.faults === undefined) {
    const all = NAMES.filter((name) => !ONLY_BY_NAME.has(name)).flatMap(faultsOf)
    return { faults: all.filter(({ needsProvider }) => hasProvider || needsProvider !== true), depth, mode }
  }
  const faults = new Set([...LINTS, ...options.faults].flatMap(faultsOf))
  for (const { id, needsProvider } of faults) {
    if (needsProvider === true && !hasProvider)
      throw invalidOption(OWNER, 'faults', id, 'no fault of the provider unless crashKit has a provider')
  }
  return { faults: [...faults], depth, mode }
}

/** All other faults have to be inside the process. Its memory is gone with it, so no lint is needed. */
function faultsOfProcesses(wanted: ExhaustiveOptions['faults'], hasChild: boolean): readonly Fault[] {
  if (!hasChild) throw invalidOption(OWNER, 'mode', 'process', "'in-process', unless crashKit has a child")
  const other = (wanted ?? []).find((fault) => fault !== 'crash' && fault !== crash)
  if (other !== undefined) {
    const name = typeof other === 'string' ? other : other.id
    throw invalidOption(
      OWNER,
      'faults',
      name,
      "only 'crash' in mode 'process'; pass the others in a call of their own",
    )
  }
  return [crash]
}

function faultsOf(wanted: FaultName | Fault): readonly Fault[] {
  // Its members alone would not do, because every string has a method `strike`, from old HTML.
  if (typeof wanted === 'object' && typeof (wanted as Partial<Fault> | null)?.strike === 'function')
    return [wanted]
  if (NAMES.includes(wanted as FaultName)) return FAULTS[wanted as FaultName]
  throw invalidOption(OWNER, 'faults', wanted, `one of ${NAMES.join(', ')}, or a fault of your own`)
}
