import type { Effect } from './advance-statements.js'
import type { KeyRow } from './key-row.js'
import { defineStatement, epochMs, type Store } from './statement.js'

type TextRow = Readonly<Record<string, string | null>>

/** An effect's row. */
export interface EffectRow {
  readonly id: string
  readonly keyId: string
  readonly scope: string
  readonly key: string
  readonly pipeline: string
  readonly version: number
  readonly phase: string
  readonly effectName: string
  readonly providerKey: string
  readonly reference: string | null
  readonly fence: number
  readonly createdMs: number
  /** The same moment to the microsecond, as text: where a reading goes on. */
  readonly createdUs: string
}

const EFFECT_COLUMNS = `e.id, e.key_id, e.scope, e.key, e.pipeline, e.version, e.phase, e.effect, e.provider_key,
         e.reference, e.fence, ${epochMs('e.created_at')} AS created_ms,
         floor(extract(epoch FROM e.created_at) * 1000000) AS created_us`

function readEffectRow(row: TextRow): EffectRow {
  return {
    id: row['id'] ?? '',
    keyId: row['key_id'] ?? '',
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    phase: row['phase'] ?? '',
    effectName: row['effect'] ?? '',
    providerKey: row['provider_key'] ?? '',
    reference: row['reference'] ?? null,
    fence: Number(row['fence']),
    createdMs: Number(row['created_ms']),
    createdUs: row['created_us'] ?? '0',
  }
}

const findEffectsOfKeyStatement = defineStatement(
  'find_effects_of_key',
  ({ effects }) => `
  SELECT ${EFFECT_COLUMNS} FROM ${effects} AS e
   WHERE e.scope = $1 AND e.key = $2 AND e.key_id = $3::uuid ORDER BY e.created_at, e.id LIMIT $4::integer`,
)

/** What a key's phases settled. By its names, which are indexed; an earlier key of the same names is left out. */
export async function findEffectsOfKey(
  store: Store,
  key: { readonly id: string; readonly scope: string; readonly key: string },
  limit: number,
): Promise<EffectRow[]> {
  const { rows } = await findEffectsOfKeyStatement(store, [key.scope, key.key, key.id, limit])
  return rows.map(readEffectRow)
}

const insertLateEffectStatement = defineStatement(
  'insert_late_effect',
  ({ effects }) => `
  INSERT INTO ${effects} (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference)
  VALUES ($1::uuid, $2, $3, $4, $5::integer, $6::bigint, $7, $8, $9, $10)`,
)

/** Records an effect that became known after its request had gone on without it. */
export async function insertLateEffect(store: Store, key: KeyRow, effect: Effect): Promise<void> {
  await insertLateEffectStatement(store, [
    key.id,
    key.scope,
    key.key,
    key.pipeline,
    key.version,
    key.fence,
    effect.phase,
    effect.effectName,
    effect.providerKey,
    effect.reference,
  ])
}

const microseconds = (parameter: string): string =>
  `('epoch'::timestamptz + (${parameter}::double precision * interval '1 microsecond'))`

const findEffectsStatement = defineStatement(
  'find_effects',
  ({ effects }) => `
  SELECT ${EFFECT_COLUMNS} FROM ${effects} AS e
   WHERE (e.created_at, e.id) > (${microseconds('$1')}, $2::uuid) AND e.created_at < ${microseconds('$3')}
   ORDER BY e.created_at, e.id LIMIT $4::integer`,
)

/** Where a reading of effects stands: behind this row. */
export interface EffectCursor {
  readonly createdUs: string
  readonly id: string
}

/** The effects behind a cursor and before a moment, oldest first. */
export async function findEffects(
  store: Store,
  after: EffectCursor,
  beforeUs: string,
  limit: number,
): Promise<EffectRow[]> {
  const { rows } = await findEffectsStatement(store, [after.createdUs, after.id, beforeUs, limit])
  return rows.map(readEffectRow)
}
