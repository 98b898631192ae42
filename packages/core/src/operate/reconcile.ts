import {
  checkFunction,
  checkKnownOptions,
  checkOptionalFunction,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import { DEFAULT_RECONCILE_SLACK_MS } from '../limits.js'
import { checkHashSecret } from '../hash-secret.js'
import { Pseudonyms } from '../pseudonyms.js'
import { checkWindow } from './check-arguments.js'
import {
  Comparison,
  type Differs,
  Effects,
  type ProviderRecord,
  type ReconcileReport,
  type ReconcileWindow,
  Records,
} from './compare-effects.js'
import type { Operator } from './operator.js'

/** What to compare. */
export interface ReconcileOptions extends ReconcileWindow {
  /**
   * Lists the provider's records of a window, which is wider than `from` to `to`. Returning more than asked for does no
   * harm.
   */
  readonly records: (
    window: ReconcileWindow,
  ) => AsyncIterable<ProviderRecord> | Iterable<ProviderRecord> | Promise<Iterable<ProviderRecord>>
  /**
   * How far beyond the window both sides are read, because an effect happens at one moment and is settled at another.
   * Default 24 h.
   */
  readonly slackMs?: number
  /** Only effects of these names. Default: all, so that effects of every other provider show up as missing there. */
  readonly effects?: readonly string[]
  /** Compares an effect and a record that belong together, such as their amounts; a returned string says how they differ. */
  readonly differs?: Differs
  /** That of whoever erased a scope: without it, effects whose reference was erased are matched by provider key alone. */
  readonly hashSecret?: string
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'reconcile' }
const OPTION_NAMES = [
  'from',
  'to',
  'records',
  'slackMs',
  'effects',
  'differs',
  'hashSecret',
] as const satisfies readonly (keyof ReconcileOptions)[]

/**
 * Compares the effects that were settled here with what the provider says it did. They are matched by reference, or else
 * by provider key. All effects and records of the widened window are held in memory: choose the window accordingly.
 *
 * @example
 * const report = await reconcile(operator, {
 *   from, to, effects: ['charge_created'],
 *   records: ({ from, to }) => listCharges(from, to), // yields { reference: charge.id, at: new Date(charge.created * 1000) }
 * })
 */
export async function reconcile(operator: Operator, options: ReconcileOptions): Promise<ReconcileReport> {
  checkOptions(options)
  const { from, to, slackMs = DEFAULT_RECONCILE_SLACK_MS } = options
  const wide = { from: new Date(from.getTime() - slackMs), to: new Date(to.getTime() + slackMs) }
  const secret = checkHashSecret(OWNER, options.hashSecret)
  const effects = new Effects(secret === null ? null : new Pseudonyms(secret))
  for await (const effect of operator.effects(wide)) {
    if (options.effects?.includes(effect.effectName) !== false) effects.add(effect)
  }
  const records = new Records()
  for await (const record of await options.records(wide)) records.add(checkRecord(record))

  const comparison = new Comparison(effects, records, { from, to }, options.differs)
  await comparison.compare()
  return { ...comparison.report(), unfinished: await operator.countUnfinished(to) }
}

function checkOptions(options: ReconcileOptions): void {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  checkWindow(OWNER.where, options)
  checkFunction(OWNER, 'records', options.records)
  checkOptionalFunction(OWNER, 'differs', options.differs)
  checkWholeNumber(OWNER, 'slackMs', options.slackMs, 0)
  const { effects } = options
  if (effects !== undefined && !(Array.isArray(effects) && effects.every((name) => typeof name === 'string')))
    throw invalidOption(OWNER, 'effects', effects, 'a list of effect names')
}

function checkRecord(record: ProviderRecord): ProviderRecord {
  const owner: OptionOwner = { ...OWNER, where: 'reconcile: a record that records() returned' }
  if (typeof record !== 'object' || record === null) throw invalidOption(owner, 'it', record, 'an object')
  const { reference, providerKey, at } = record
  if (typeof reference !== 'string' || reference === '')
    throw invalidOption(owner, 'reference', reference, 'a non-empty string')
  if (providerKey != null && typeof providerKey !== 'string')
    throw invalidOption(owner, 'providerKey', providerKey, 'a string, or null')
  if (!(at instanceof Date) || Number.isNaN(at.getTime()))
    throw invalidOption(owner, 'at', at, 'a valid Date')
  return record
}
