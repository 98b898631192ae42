import { defineStatement, NOW, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { fromFullBucket, isBucket, type Rate, takingToken, tokensAt } from '../usage/bucket.js'
import { limitMet } from '../usage/limit-met.js'
import { returnToken } from '../usage/return-token.js'
import type { MetLimit, ScopeLimits } from '../usage/scope-limit.js'
import { bytesOfNewKey, countingBytes, partFor } from '../usage/stored-bytes.js'
import {
  type FirstGrant,
  insertInto,
  type NewKey,
  newKeyAfter,
  newKeyValues,
  reservedRow,
} from './insert-key.js'
import { insertOverServers } from './insert-limited-over-servers.js'
import type { KeyRow } from './key-row.js'
import { bytesOfScope, everythingElse, looks, NOTHING_ELSE } from './limit-looks.js'
import { writeOut } from './write-out.js'

/** What came of reserving a key under limits. */
export type LimitedInsert =
  | { readonly type: 'inserted'; readonly row: KeyRow }
  /** Somebody has the key, or an effect of it is known. */
  | { readonly type: 'not_inserted' }
  | ({ readonly type: 'limited' } & MetLimit)

/**
 * No row where the key or an effect of it is known. How long a refused key has to wait is looked up afterwards: who has got it does not
 * ask, and the expression for it is parsed and planned all the same.
 */
const tells = (gate: string, more = ''): string => `
  SELECT fresh.*, new.*, EXISTS (SELECT 1 FROM ${gate}) AS passed${more} FROM new LEFT JOIN fresh ON true`

const OF_SCOPE = { scope: '$2', kind: `'new_keys'`, pipeline: `''`, max: '$17', perMs: '$18' }
const OF_PIPELINE = { scope: '$2', kind: `'new_keys'`, pipeline: '$4', max: '$20', perMs: '$21' }

/** Reserves the key where only unfinished keys are limited. It takes no lock, and leaves no trace if the key is not inserted. */
const insertCountedKeyStatement = defineStatement(
  'insert_key',
  (tables) => `${looks(tables, NOTHING_ELSE)}
  , fresh AS (${insertInto(tables.keys, `SELECT ${newKeyAfter('new')} FROM room, new`)})${tells('room')}`,
)

/**
 * Reserves the key where the scope has one bucket. The token is taken only for a key that nobody has, and the key is inserted only
 * for a token. Whoever meets a known key locks nothing and takes no transaction id.
 */
const insertRatedKeyStatement = defineStatement(
  'insert_key',
  (tables) => `${looks(tables, NOTHING_ELSE)}
  , token AS (${takingToken(tables.scopeUsage, `SELECT ${fromFullBucket(NOW, OF_SCOPE)} FROM room`, OF_SCOPE)}
    RETURNING u.scope
  ), fresh AS (${insertInto(tables.keys, `SELECT ${newKeyAfter('new')} FROM token, new`)})${tells('token')}`,
)

/** Reserves the key where the bytes of the scope are limited, and maybe its new keys. Bytes are counted only together with their key. */
const insertStoredKeyStatement = defineStatement(
  'insert_key',
  (tables) => `${looks(tables, bytesOfScope(tables))}
  , token AS (${takingToken(
    tables.scopeUsage,
    `SELECT ${fromFullBucket(NOW, OF_SCOPE)} FROM room WHERE $17::double precision IS NOT NULL`,
    OF_SCOPE,
  )}
    RETURNING u.scope
  ), gate AS (
    SELECT 1 FROM room WHERE $17::double precision IS NULL OR EXISTS (SELECT 1 FROM token)
  ), fresh AS (${insertInto(tables.keys, `SELECT ${newKeyAfter('new')}, $20::bigint FROM gate, new`, ', stored_bytes')}
  ), counted AS (${countingBytes(
    tables,
    `SELECT 'stored_bytes', $2, $4, $21::integer, $20::bigint FROM fresh`,
  )})${tells('gate')}`,
)

/** A bucket that is not there is full. */
const hasToken = ({ scopeUsage }: Tables, bucket: typeof OF_SCOPE): string =>
  `(${bucket.max}::double precision IS NULL OR NOT EXISTS (
       SELECT 1 FROM ${scopeUsage} AS u WHERE ${isBucket(bucket)} AND ${tokensAt(NOW, bucket)} < 1::double precision))`

/**
 * Reserves the key under everything that can be limited. Two buckets are first looked into, so that an empty one seldom costs the
 * other a token: only when somebody else has just emptied it. Bytes are counted only together with their key.
 */
const insertMeasuredKeyStatement = defineStatement(
  'insert_key',
  (tables) => `${looks(tables, everythingElse(tables))}
  , open_buckets AS (
    SELECT 1 FROM room WHERE ${hasToken(tables, OF_SCOPE)} AND ${hasToken(tables, OF_PIPELINE)}
  ), token AS (${takingToken(
    tables.scopeUsage,
    `SELECT ${fromFullBucket(NOW, OF_SCOPE)} FROM open_buckets WHERE $17::double precision IS NOT NULL`,
    OF_SCOPE,
  )}
    RETURNING u.scope
  ), first_gate AS (
    SELECT 1 FROM open_buckets WHERE $17::double precision IS NULL OR EXISTS (SELECT 1 FROM token)
  ), pipeline_token AS (${takingToken(
    tables.scopeUsage,
    `SELECT ${fromFullBucket(NOW, OF_PIPELINE)} FROM first_gate WHERE $20::double precision IS NOT NULL`,
    OF_PIPELINE,
  )}
    RETURNING u.scope
  ), gate AS (
    SELECT 1 FROM first_gate WHERE $20::double precision IS NULL OR EXISTS (SELECT 1 FROM pipeline_token)
  ), fresh AS (${insertInto(tables.keys, `SELECT ${newKeyAfter('new')}, $24::bigint FROM gate, new`, ', stored_bytes')}
  ), counted AS (${countingBytes(
    tables,
    `SELECT 'stored_bytes', $2, $4, $25::integer, $24::bigint FROM fresh WHERE $24::bigint > 0`,
  )})${tells('gate', ', EXISTS (SELECT 1 FROM first_gate) AS took_first')}`,
)

/** Reserves the key if it is free, and if its scope's limits leave room for it. */
export async function insertLimitedKey(
  store: Store,
  key: NewKey,
  grant: FirstGrant,
  runsAgain: boolean,
  limits: ScopeLimits,
): Promise<LimitedInsert> {
  if (store.tables.spread.overServers) return insertOverServers(store, key, grant, runsAgain, limits)
  const isMeasured = measuresBytes(limits)
  const bytes = isMeasured ? bytesOfNewKey(key.inputJson) : 0
  const { type, more } = neededFor(limits, bytes)
  const insert = {
    counted: insertCountedKeyStatement,
    rated: insertRatedKeyStatement,
    stored: insertStoredKeyStatement,
    measured: insertMeasuredKeyStatement,
  }[type]
  const values = newKeyValues(store, key, grant)
  // A holder waits for the disk afterwards: the scope's row would be locked meanwhile, and its requests would queue for it.
  // What is enqueued is found by others, who promise that it will run.
  const isEnqueued = grant.leaseMs === null
  const does = isEnqueued ? 'write' : 'write_soon'
  const { rows } = await insert(store, [...values, runsAgain, ...more], does)
  const row = rows[0] ?? {}
  if (row['now_ms'] != null) {
    if (grant.durable && !isEnqueued) await writeOut(store)
    return { type: 'inserted', row: reservedRow(values, key, grant, row, bytes) }
  }
  await returnTokens(store, key, limits, row)
  const met = await limitMet(store, key, limits, row)
  return met === null ? { type: 'not_inserted' } : { type: 'limited', ...met }
}

/** Whether the bytes of such keys are counted. */
const measuresBytes = ({ ofScope, ofPipeline }: ScopeLimits): boolean =>
  (ofScope?.storedBytes ?? ofPipeline?.storedBytes ?? null) !== null

/** The least that holds all limits, with the values that it needs more. */
interface Needed {
  readonly type: 'counted' | 'rated' | 'stored' | 'measured'
  readonly more: readonly (number | null)[]
}

function neededFor({ ofScope, ofPipeline }: ScopeLimits, bytes: number): Needed {
  const unfinished = ofScope?.unfinished ?? null
  const rate = rateValues(ofScope?.newKeys)
  if (ofPipeline === null && bytes === 0)
    return ofScope?.newKeys == null
      ? { type: 'counted', more: [unfinished] }
      : { type: 'rated', more: [unfinished, ...rate] }
  const part = partFor('read committed')
  if (ofPipeline === null)
    return { type: 'stored', more: [unfinished, ...rate, ofScope?.storedBytes ?? null, bytes, part] }
  const ofThis = [ofPipeline?.unfinished ?? null, ...rateValues(ofPipeline?.newKeys)]
  const most = [ofScope?.storedBytes ?? null, ofPipeline?.storedBytes ?? null]
  return {
    type: 'measured',
    more: [unfinished, ...rate, ...ofThis, ...most, bytes, part],
  }
}

const rateValues = (rate: Rate | null | undefined): readonly (number | null)[] => [
  rate?.max ?? null,
  rate?.perMs ?? null,
]

/** What was taken for a key that was not inserted. */
async function returnTokens(
  store: Store,
  key: NewKey,
  { ofScope, ofPipeline }: ScopeLimits,
  row: Readonly<Record<string, string | null>>,
): Promise<void> {
  const bucket = { scope: key.scope, kind: 'new_keys' } as const
  const passed = row['passed'] === 't'
  if (ofScope?.newKeys != null && (passed || row['took_first'] === 't'))
    await returnToken(store, { ...bucket, pipeline: null }, ofScope.newKeys)
  if (ofPipeline?.newKeys != null && passed)
    await returnToken(store, { ...bucket, pipeline: key.pipeline }, ofPipeline.newKeys)
}
