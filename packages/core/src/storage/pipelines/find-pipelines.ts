import type { KeyKind } from '../keys/key-row.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

/** A definition as an engine recorded it. */
export interface PipelineRow {
  readonly pipeline: string
  readonly version: number
  readonly definitionHash: string
  readonly kind: KeyKind
  readonly descriptionJson: string
  readonly recordedMs: number
}

const COLUMNS = `p.pipeline, p.version, p.definition_hash, p.kind, p.description, ${epochMs('p.recorded_at')} AS recorded_ms`

const findPipelinesStatement = defineStatement(
  'find_pipelines',
  ({ pipelines }) => `
  SELECT ${COLUMNS} FROM ${pipelines} AS p
   ORDER BY p.pipeline, p.version, p.definition_hash LIMIT $1::integer`,
)

const findPipelineStatement = defineStatement(
  'find_pipeline',
  ({ pipelines }) => `
  SELECT ${COLUMNS} FROM ${pipelines} AS p
   WHERE p.pipeline = $1 AND p.version = $2::integer AND p.definition_hash = $3`,
)

/** All definitions that engines have recorded, up to a limit, by name and version. */
export async function findPipelines(store: Store, limit: number): Promise<PipelineRow[]> {
  const { rows } = await findPipelinesStatement(store, [limit])
  return rows.map(readPipelineRow)
}

/** The definition that a key is pinned to, as it was recorded; null if it never was. */
export async function findPipeline(
  store: Store,
  of: Pick<PipelineRow, 'pipeline' | 'version' | 'definitionHash'>,
): Promise<PipelineRow | null> {
  const { rows } = await findPipelineStatement(store, [of.pipeline, of.version, of.definitionHash])
  return rows[0] === undefined ? null : readPipelineRow(rows[0])
}

function readPipelineRow(row: Readonly<Record<string, string | null>>): PipelineRow {
  return {
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    definitionHash: row['definition_hash'] ?? '',
    kind: row['kind'] as KeyKind,
    descriptionJson: row['description'] ?? 'null',
    recordedMs: Number(row['recorded_ms']),
  }
}
