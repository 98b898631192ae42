import { defineStatement, NOW, type Store, unnested } from '../statement.js'
import { runUnnamed } from '../run-unnamed.js'

/** A definition as it is stored. */
export interface PipelineToRecord {
  readonly pipeline: string
  readonly version: number
  readonly definitionHash: string
  readonly kind: 'pipeline' | 'atomic'
  readonly descriptionJson: string
}

/**
 * Rows that are as they should be are only read: every process of a deployment sends this when it starts, and then no transaction id
 * is used up. Others are written in one order, so that two processes which start at once do not wait for each other in turn.
 */
const recordPipelinesStatement = defineStatement(
  'record_pipelines',
  ({ pipelines }) => `
  INSERT INTO ${pipelines} AS u (pipeline, version, definition_hash, kind, description, recorded_at)
  SELECT given.pipeline, given.version, given.definition_hash, given.kind, given.description::json, ${NOW}
    FROM ${unnested('$1::text[]', '$2::integer[]', '$3::text[]', '$4::text[]', '$5::text[]')}
           AS given (pipeline, version, definition_hash, kind, description)
   WHERE NOT EXISTS (
     SELECT 1 FROM ${pipelines} AS known
      WHERE known.pipeline = given.pipeline AND known.version = given.version
        AND known.definition_hash = given.definition_hash AND known.kind = given.kind
        AND known.description::text = given.description)
   ORDER BY given.pipeline, given.version, given.definition_hash
      ON CONFLICT (pipeline, version, definition_hash)
      DO UPDATE SET kind = excluded.kind, description = excluded.description, recorded_at = excluded.recorded_at
   WHERE u.kind <> excluded.kind OR u.description::text <> excluded.description::text`,
)

/** Writes down definitions that are not there yet, or not like that. */
export async function recordPipelines(store: Store, definitions: readonly PipelineToRecord[]): Promise<void> {
  await runUnnamed(
    store,
    recordPipelinesStatement.bind(store.tables, [
      definitions.map(({ pipeline }) => pipeline),
      definitions.map(({ version }) => version),
      definitions.map(({ definitionHash }) => definitionHash),
      definitions.map(({ kind }) => kind),
      definitions.map(({ descriptionJson }) => descriptionJson),
    ]),
  )
}
