import { GUARANTEES } from '../pipeline/phase.js'
import type { RecordedPhase, RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import type { PipelineRow } from '../storage/pipelines/find-pipelines.js'

/** What an engine writes down of a definition besides its name, version and hash. Some have no namespace. */
type WrittenRecord = Pick<
  RecordedPipeline,
  'phases' | 'maxAttempts' | 'maxAgeMs' | 'retentionMs' | 'commits'
> & {
  readonly namespace?: string | null
}

/**
 * A recorded definition. Returns null for a description that cannot be read, which a newer or another program may have written:
 * to guess at it would be to say something wrong about money.
 */
export function viewPipeline(row: PipelineRow): RecordedPipeline | null {
  const { pipeline: name, version, definitionHash, kind, recordedMs } = row
  const record: unknown = JSON.parse(row.descriptionJson)
  if (!isRecord(record)) return null
  const { namespace, phases, maxAttempts, maxAgeMs, retentionMs, commits } = record
  return {
    name,
    version,
    definitionHash,
    kind,
    namespace: namespace ?? null,
    phases,
    maxAttempts,
    maxAgeMs,
    retentionMs,
    commits,
    recordedAt: new Date(recordedMs),
  }
}

function isRecord(value: unknown): value is WrittenRecord {
  if (!isObject(value)) return false
  const { namespace, phases, maxAttempts, maxAgeMs, retentionMs, commits } = value
  return (
    (namespace == null || typeof namespace === 'string') &&
    [maxAttempts, maxAgeMs, retentionMs].every(isAmount) &&
    (commits === 'each' || commits === 'fewest') &&
    Array.isArray(phases) &&
    phases.length > 0 &&
    phases.every(isPhase) &&
    phases.findIndex(({ kind }) => kind === 'finish') === phases.length - 1
  )
}

function isPhase(value: unknown): value is RecordedPhase {
  if (!isObject(value) || typeof value['name'] !== 'string' || !isAmount(value['leaseMs'])) return false
  switch (value['kind']) {
    case 'local':
    case 'finish':
      return true
    case 'foreign':
      return (
        GUARANTEES.some((guarantee) => guarantee === value['guarantee']) &&
        typeof value['effectName'] === 'string' &&
        (value['guarantee'] !== 'keyed' || isAmount(value['windowMs'])) &&
        (value['guarantee'] !== 'queryable' || isAmount(value['quietForMs'])) &&
        typeof value['canReconcile'] === 'boolean' &&
        typeof value['goesOnWhenUnknown'] === 'boolean'
      )
    default:
      return false
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

const isAmount = (value: unknown): value is number => typeof value === 'number' && value >= 0
