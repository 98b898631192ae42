import { epochMs } from '../statement.js'

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
  /** When an operator said that it was undone; null otherwise. */
  readonly undoneMs: number | null
  /** The same moment to the microsecond, as text: where reading continues. */
  readonly createdUs: string
}

export const EFFECT_COLUMNS = `e.id, e.key_id, e.scope, e.key, e.pipeline, e.version, e.phase, e.effect, e.provider_key,
         e.reference, e.fence, ${epochMs('e.created_at')} AS created_ms,
         floor(extract(epoch FROM e.created_at) * 1000000) AS created_us, ${epochMs('e.undone_at')} AS undone_ms`

export function readEffectRow(row: TextRow): EffectRow {
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
    undoneMs: row['undone_ms'] == null ? null : Number(row['undone_ms']),
    createdUs: row['created_us'] ?? '0',
  }
}
