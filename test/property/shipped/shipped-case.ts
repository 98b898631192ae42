import type { JsonValue } from '@pawl/core'
import fc from 'fast-check'
import type { ProviderFault } from '../../../packages/crash-kit/src/provider/provider-fault.js'
import { type PipelinePlan, troubledPlan } from '../pipelines/pipeline-plan.js'
import { jsonValue } from '../support/json.js'

/** A random pipeline on the engine as it ships, and what happens to it from outside. */
export interface ShippedCase {
  readonly plan: PipelinePlan
  readonly input: JsonValue
  readonly sending: {
    readonly pipelining: boolean
    readonly preparedStatements: boolean
    readonly preparedQueries: boolean
  }
  /** A busy backend is terminated after this many round trips of somebody else since the one before. */
  readonly kills: readonly number[]
  /** What the first requests meet at the provider. */
  readonly provider: readonly ProviderFault[]
  /** How often the client asks before the completer has to finish the request. */
  readonly asks: number
}

/** A request of a few phases takes some dozen round trips. */
const MOST_ROUND_TRIPS = 30
const MOST_KILLS = 4
const MOST_ASKS = 6

/** Faults that are never answered are not among them, because they wait for a time-out. */
const PROVIDER_FAULTS = [
  'cutBefore',
  'cutAfter',
  'tooMany',
  'serverError',
  'unavailable',
  'malformed',
] as const

export const shippedCase: fc.Arbitrary<ShippedCase> = fc.record({
  plan: troubledPlan,
  input: jsonValue,
  sending: fc.record({
    pipelining: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, fc.constant(false)),
    preparedStatements: fc.boolean(),
    preparedQueries: fc.boolean(),
  }),
  kills: fc.array(fc.nat({ max: MOST_ROUND_TRIPS }), { maxLength: MOST_KILLS }),
  provider: fc.array(fc.constantFrom<ProviderFault[]>(...PROVIDER_FAULTS), { maxLength: 2 }),
  asks: fc.integer({ min: 1, max: MOST_ASKS }),
})
