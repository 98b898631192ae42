import { MAX_INT32 } from '../../limits.js'
import type { StoredResponse } from '../../pipeline/directive.js'
import type { Wipe } from '../../pipeline/settings.js'
import type { KeyRow } from '../keys/key-row.js'
import type { Tables } from '../tables.js'

/**
 * What a key takes beside its values: the rest of its row, and its entries in the indexes. `pawl size` has measured it (`keyRow` and
 * `keyIndexes`, without the 200 bytes of values). It is counted so that very many small keys are not free.
 */
const KEY_ROW_BYTES = 1_300

/** What is counted of a key while it is not finished. Sizes are those of the values as phases see them: UTF-8, not sealed or compressed. */
export const bytesOfNewKey = (inputJson: string): number => KEY_ROW_BYTES + Buffer.byteLength(inputJson)

/** A finished key's bytes: those that are counted from now on, and by how much that changes the count. */
export interface CountedKey {
  readonly bytes: number
  readonly pipeline: string
  readonly part: number
  readonly change: number
}

/** Of a key whose bytes are counted. `stateJson`: what is left of it. `isolation`: of the transaction that counts. */
export function countedKey(
  row: Pick<KeyRow, 'pipeline' | 'inputJson' | 'storedBytes'>,
  left: { readonly stateJson: string; readonly response: StoredResponse; readonly wipe: Wipe },
  isolation: string,
): CountedKey {
  const { pipeline, inputJson, storedBytes } = row
  const input = Buffer.byteLength(left.wipe === 'nothing' ? inputJson : 'null')
  const state = Buffer.byteLength(left.wipe === 'all' ? '{}' : left.stateJson)
  const { headers, body } = left.response
  const bytes = KEY_ROW_BYTES + input + state + Buffer.byteLength(JSON.stringify(headers)) + body.length
  return { bytes, pipeline, part: partFor(isolation), change: bytes - storedBytes }
}

/** Parameters, in this order. */
export const countedValues = ({ bytes, pipeline, part, change }: CountedKey): unknown[] => [
  bytes,
  pipeline,
  part,
  change,
]

/**
 * Bytes are counted in several rows for each scope and pipeline, so that finishing requests seldom wait for each other: whoever
 * finishes a key has its row locked until the disk has its COMMIT.
 */
const PARTS = 16

/** Whoever frees bytes has a row of its own, which nobody finishing waits for. A part by itself may be negative; their sum is not. */
const FREED_PART = 0

/**
 * Which row to add to. Under a stricter isolation, a transaction that meets a row that has changed since it began fails; it adds one
 * of its own, and the reaper puts them together.
 */
export const partFor = (isolation: string): number =>
  1 + Math.floor(Math.random() * (isolation === 'read committed' ? PARTS : MAX_INT32))

/** More parts than this are put together: those of one scope and pipeline, with the one that frees. */
export const MOST_PARTS = PARTS + 1

/** Adds bytes to what is counted. `rows`: their scope, pipeline, part and bytes, in an order that is always the same. */
export const countingBytes = ({ scopeUsage }: Tables, rows: string): string => `
    INSERT INTO ${scopeUsage} AS u (kind, scope, pipeline, part, bytes) ${rows}
    ON CONFLICT (scope, kind, pipeline, part) DO UPDATE SET bytes = u.bytes + excluded.bytes`

/**
 * Of keys that were deleted, which are the rows of `gone`: takes off what was counted of them, in the same statement. The order keeps
 * two such statements from waiting for each other in a circle.
 */
export const freeingBytes = (tables: Tables, gone: string): string =>
  countingBytes(
    tables,
    `SELECT 'stored_bytes', scope, pipeline, ${FREED_PART}, (0::numeric - sum(stored_bytes))::bigint FROM ${gone}
      WHERE stored_bytes <> 0 GROUP BY scope, pipeline ORDER BY scope, pipeline`,
  )
