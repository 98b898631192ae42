import { ANSWER_VARIANTS } from './answer-variants.js'
import { CALL_REPEAT_VARIANTS } from './call-repeat-variants.js'
import { CALL_RESULT_VARIANTS } from './call-result-variants.js'
import { DRIVER_VARIANTS } from './driver-variants.js'
import { GUARD_VARIANTS } from './guard-variants.js'
import { HOLDING_VARIANTS } from './holding-variants.js'
import { LEG_VARIANTS } from './leg-variants.js'
import { PROTOCOL_VARIANTS } from './protocol-variants.js'
import { SCENARIO_VARIANTS } from './scenario-variants.js'
import { SERVER_VARIANTS } from './server-variants.js'
import { TRANSACTION_VARIANTS } from './transaction-variants.js'
import type { Patches, Variant } from './variant.js'

/** Deliberately broken engines, which the crash kit has to find. */
export const VARIANTS = [
  ...HOLDING_VARIANTS,
  ...TRANSACTION_VARIANTS,
  ...DRIVER_VARIANTS,
  ...CALL_REPEAT_VARIANTS,
  ...CALL_RESULT_VARIANTS,
  ...ANSWER_VARIANTS,
  ...PROTOCOL_VARIANTS,
  ...SERVER_VARIANTS,
  ...LEG_VARIANTS,
  ...GUARD_VARIANTS,
] as const satisfies readonly Variant[]

export type VariantName = (typeof VARIANTS)[number]['name']

export type ScenarioVariantName = (typeof SCENARIO_VARIANTS)[number]['name']

/** What is replaced in an engine of a name. */
export function patchesOf(name: string): Patches {
  return SCENARIO_VARIANTS.find((each) => each.name === name) ?? variantOf(name)
}

/** The variant of a name. */
export function variantOf(name: string): Variant {
  const variant = VARIANTS.find((each) => each.name === name)
  if (variant !== undefined) return variant
  const names = VARIANTS.map((each) => each.name).join(', ')
  throw new Error(`There is no broken engine '${name}'. It has to be one of: ${names}.`)
}
