import type { JsonValue, Pipeline } from '@pawl/core'
import type { FakeProvider } from '@pawl/crash-kit'
import fc from 'fast-check'
import type { PrepareContext } from '../../packages/crash-kit/src/database/kit-database.js'
import type { History, PipelineShape, Violation } from '../../packages/crash-kit/src/history.js'
import { buildPipeline, type ChargeProvider } from '../property/pipelines/build-pipeline.js'
import { Chances } from '../property/pipelines/chances.js'
import { createFactTables, type FactDatabase } from '../property/pipelines/fact-tables.js'
import { type PipelinePlan, pipelinePlan } from '../property/pipelines/pipeline-plan.js'
import { referenceModel } from '../property/pipelines/reference-model.js'
import { modelViolations } from '../property/survival/model-violations.js'
import { jsonValue } from '../property/support/json.js'
import type { Judged } from './judge-requests.js'
import { WireRequest } from './wire-request.js'
import { SETTINGS, type WireTrial } from './wire-trial.js'

export const FACT_TABLES = ['facts', 'totals'] as const

export const prepareFacts = ({ pool, schema }: PrepareContext): Promise<void> =>
  createFactTables(pool, schema)

/** A random pipeline that an engine runs beside others. */
export interface PlannedPipeline {
  readonly pipeline: Pipeline<FactDatabase, JsonValue>
  readonly shape: PipelineShape
  /** Where the end of a request with this input differs from the model. */
  readonly violations: (history: History, input: JsonValue) => Violation[]
  /** The plan, for whoever has to look into a finding. */
  readonly plan: unknown
}

/** A request for one of them. */
export interface PlannedRequest {
  readonly planned: PlannedPipeline
  readonly request: WireRequest<FactDatabase, JsonValue>
}

/** This many random pipelines. They are versions of one pipeline, so that one engine takes them all. */
export function planPipelines(seed: number, count: number, provider: FakeProvider): PlannedPipeline[] {
  const chances = new Chances()
  const plans = fc.sample(pipelinePlan, { seed, numRuns: count })
  return plans.map((plan, index) => {
    const version = index + 1
    const settings = { ...SETTINGS, version }
    const pipeline = buildPipeline(plan, { provider: chargesAt(provider), chances, settings })
    return {
      plan,
      pipeline,
      shape: shapeOf(plan, version),
      violations: (history, input) => modelViolations(history, referenceModel(plan, input), plan),
    }
  })
}

export function inputsOf(seed: number, count: number): JsonValue[] {
  return fc.sample(jsonValue, { seed, numRuns: count })
}

export function plannedRequest(trial: WireTrial, planned: PlannedPipeline, input: JsonValue): PlannedRequest {
  return { planned, request: new WireRequest(trial, planned.pipeline, () => input) }
}

/** Besides keeping all the rules, it has to end as its plan says. */
export function judged({ planned, request }: PlannedRequest): Judged {
  const { shape, violations } = planned
  return { request, shape, more: (history) => violations(history, request.input) }
}

function shapeOf(plan: PipelinePlan, version: number): PipelineShape {
  return {
    name: 'random-pipeline',
    version,
    points: ['started', ...plan.phases.map(({ name }) => name), 'finished'],
    foreign: plan.phases.flatMap((phase) =>
      phase.kind === 'foreign' ? [{ phase: phase.name, guarantee: phase.guarantee }] : [],
    ),
    maxAttempts: SETTINGS.maxAttempts,
  }
}

function chargesAt(provider: FakeProvider): ChargeProvider {
  return {
    charge: ({ keyId, phase, number }, options) => provider.send({ keyId, phase, number }, options),
    find: (idempotencyKey) => provider.find(idempotencyKey),
  }
}
