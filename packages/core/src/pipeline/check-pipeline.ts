import {
  checkFunction,
  checkKnownOptions,
  checkOneOf,
  checkOptionalFunction,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { PawlError } from '../errors.js'
import { MAX_DURATION_MS, MAX_INT32, MAX_NAME_LENGTH } from '../limits.js'
import { GUARANTEES } from './phase.js'
import { checkSettings, PHASE_SETTING_NAMES, PIPELINE_SETTING_NAMES } from './settings.js'

/** Checks again what the types enforce, for callers without types. Each complaint names the pipeline and the phase. */

const NAME = /^[A-Za-z][A-Za-z0-9_.-]*$/
const RESERVED_POINTS = ['started', 'finished']

export function checkPipelineOptions(options: Record<string, unknown>): void {
  const owner = ownerOf((options as Record<string, unknown> | null | undefined)?.['name'])
  checkKnownOptions(owner, options, [
    'name',
    'version',
    'input',
    'fingerprint',
    'authorize',
    'upgradesFrom',
    ...PIPELINE_SETTING_NAMES,
  ])
  checkName(owner, 'name', options['name'])
  checkWholeNumber(owner, 'version', options['version'] ?? null, 1, MAX_INT32)
  checkOptionalFunction(owner, 'fingerprint', options['fingerprint'])
  checkOptionalFunction(owner, 'authorize', options['authorize'])
  checkSchema(owner, options['input'] as Partial<StandardSchemaV1>)
  checkUpgrades(owner, options['upgradesFrom'], options['version'] as number)
  checkSettings(owner, options)
}

export function checkLocalPhase(owner: OptionOwner, run: unknown, options: object): void {
  checkFunction(owner, 'the second argument', run)
  checkKnownOptions(owner, options, ['when', ...PHASE_SETTING_NAMES])
  checkOptionalFunction(owner, 'when', (options as { when?: unknown }).when)
  checkSettings(owner, options)
}

/** `finish` always runs, so it has no `when`. */
export function checkFinish(owner: OptionOwner, run: unknown, options: object): void {
  checkFunction(owner, 'the first argument', run)
  checkKnownOptions(owner, options, PHASE_SETTING_NAMES)
  checkSettings(owner, options)
}

const FOREIGN_OPTIONS = [
  'call',
  'settle',
  'reference',
  'onError',
  'isAnswer',
  'when',
  'effectName',
  'guarantee',
  'windowMs',
  'reconcile',
  'quietForMs',
  'whenUnknown',
]

export function checkForeignPhase(owner: OptionOwner, options: Record<string, unknown>): void {
  checkKnownOptions(owner, options, [...FOREIGN_OPTIONS, ...PHASE_SETTING_NAMES])
  checkFunction(owner, 'call', options['call'])
  for (const name of ['settle', 'reference', 'onError', 'isAnswer', 'when', 'reconcile']) {
    checkOptionalFunction(owner, name, options[name])
  }
  if (options['isAnswer'] !== undefined && options['onError'] === undefined) {
    throw new PawlError(
      'PAWL_INVALID_PIPELINE',
      `${owner.where}: isAnswer without onError has no effect. Add an onError that responds to these errors.`,
    )
  }
  if (options['effectName'] !== undefined) checkName(owner, 'effectName', options['effectName'])
  checkOneOf(owner, 'guarantee', options['guarantee'], GUARANTEES)
  checkWholeNumber(owner, 'windowMs', options['windowMs'], 1, MAX_DURATION_MS)
  checkWholeNumber(owner, 'quietForMs', options['quietForMs'], 0, MAX_DURATION_MS)
  checkGuarantee(owner, options)
  const { whenUnknown } = options
  if (whenUnknown !== undefined && whenUnknown !== 'stuck' && typeof whenUnknown !== 'function')
    throw invalidOption(owner, 'whenUnknown', whenUnknown, "'stuck' or a function")
  checkSettings(owner, options)
}

export function checkPoint(owner: OptionOwner, name: unknown, taken: readonly string[]): void {
  checkName(owner, 'the phase name', name)
  if (RESERVED_POINTS.includes(name as string)) {
    throw new PawlError(
      'PAWL_INVALID_PIPELINE',
      `${owner.where}: '${String(name)}' is reserved; choose another phase name.`,
    )
  }
  if (taken.includes(name as string)) {
    throw new PawlError(
      'PAWL_INVALID_PIPELINE',
      `${owner.where}: there is already a phase '${String(name)}'; phase names are unique.`,
    )
  }
}

export function checkEffectName(owner: OptionOwner, effectName: string, taken: readonly string[]): void {
  if (taken.includes(effectName)) {
    throw new PawlError(
      'PAWL_INVALID_PIPELINE',
      `${owner.where}: the effect name '${effectName}' is used by an earlier phase; both would send the same provider key.`,
    )
  }
}

export function ownerOf(pipeline: unknown, phase?: string | symbol): OptionOwner {
  const where = `pipeline '${String(pipeline)}'${phase === undefined ? '' : `, phase '${String(phase)}'`}`
  return { code: 'PAWL_INVALID_PIPELINE', where }
}

function checkName(owner: OptionOwner, option: string, name: unknown): void {
  if (typeof name !== 'string' || name.length > MAX_NAME_LENGTH || !NAME.test(name)) {
    throw invalidOption(
      owner,
      option,
      name,
      `a letter, then letters, digits, '_', '.' or '-', at most ${MAX_NAME_LENGTH} in all`,
    )
  }
}

function checkSchema(owner: OptionOwner, schema: Partial<StandardSchemaV1> | null | undefined): void {
  if (schema === undefined) return
  if (typeof schema?.['~standard']?.validate !== 'function') {
    throw invalidOption(owner, 'input', schema, 'a Standard Schema (zod, valibot, arktype, …)')
  }
}

function checkUpgrades(owner: OptionOwner, upgrades: unknown, version: number): void {
  if (upgrades === undefined) return
  if (!Array.isArray(upgrades))
    throw invalidOption(owner, 'upgradesFrom', upgrades, 'an array of { version, points, state }')
  for (const upgrade of upgrades as Record<string, unknown>[]) {
    checkKnownOptions({ ...owner, where: `${owner.where}, upgradesFrom` }, upgrade, [
      'version',
      'points',
      'state',
    ])
    checkWholeNumber(owner, 'upgradesFrom.version', upgrade['version'] ?? null, 1)
    if ((upgrade['version'] as number) >= version) {
      throw invalidOption(owner, 'upgradesFrom.version', upgrade['version'], `a version before ${version}`)
    }
    checkOptionalFunction(owner, 'upgradesFrom.state', upgrade['state'])
    checkPoints(owner, upgrade['points'])
  }
}

function checkPoints(owner: OptionOwner, points: unknown): void {
  if (points === undefined) return
  if (typeof points !== 'object' || points === null || Array.isArray(points)) {
    throw invalidOption(owner, 'upgradesFrom.points', points, 'an object of old names and new ones')
  }
}

function checkGuarantee(owner: OptionOwner, options: Record<string, unknown>): void {
  const guarantee = (options['guarantee'] ?? 'keyed') as string
  const goesOnlyWith: Record<string, readonly string[]> = {
    windowMs: ['keyed'],
    quietForMs: ['queryable'],
    reconcile: ['keyed', 'queryable'],
    whenUnknown: ['at_most_once'],
  }
  for (const [name, guarantees] of Object.entries(goesOnlyWith)) {
    if (options[name] !== undefined && !guarantees.includes(guarantee)) {
      throw new PawlError(
        'PAWL_INVALID_PIPELINE',
        `${owner.where}: ${name} cannot be combined with guarantee '${guarantee}'.`,
      )
    }
  }
  if (guarantee === 'queryable' && options['reconcile'] === undefined) {
    throw new PawlError(
      'PAWL_INVALID_PIPELINE',
      `${owner.where}: guarantee 'queryable' needs a reconcile function, which asks the provider.`,
    )
  }
}
