import { timingSafeEqual } from 'node:crypto'
import { Opening, sealResponse } from '../storage/sealed-values.js'
import type { Tables } from '../storage/tables.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { KnownEpoch } from './cache-epochs.js'

/**
 * Which columns a cached key has. Whatever decides about a finished key, or about one that somebody holds, has to be among them; the
 * rest is long, or would name the key to whoever sees the cache. Another list makes everything that was cached before useless.
 */
const CARRIED = {
  id: true,
  scope: false,
  key: false,
  pipeline: true,
  kind: true,
  version: true,
  definitionHash: true,
  fingerprint: true,
  fingerprintVersion: true,
  inputJson: false,
  stateJson: false,
  recoveryPoint: true,
  status: true,
  stuckReason: true,
  fence: true,
  holder: true,
  leaseUntilMs: true,
  attempts: true,
  retries: true,
  runAfterMs: true,
  intent: false,
  effectEpoch: true,
  undoneBefore: true,
  lastError: false,
  trail: false,
  response: false,
  createdMs: true,
  unstuckMs: true,
  updatedMs: true,
  expiresMs: true,
  nowMs: false,
  server: true,
  revision: true,
  traceparent: false,
  storedBytes: false,
  sealed: false,
} as const satisfies Record<keyof KeyRow, boolean>

type Names = { [Name in keyof typeof CARRIED]: (typeof CARRIED)[Name] extends true ? Name : never }
type CarriedName = Names[keyof Names]
type CarriedColumns = Pick<KeyRow, CarriedName>

const CARRIED_NAMES = Object.keys(CARRIED).filter((name) => CARRIED[name as keyof KeyRow]) as CarriedName[]

/** Raised when values are written otherwise. */
const FORMAT = 1

/** Names the form of cached values: part of every epoch, so that two versions of Pawl never read each other's. */
export const CARRIED_FORMAT = `${FORMAT} ${CARRIED_NAMES.join(' ')}`

/** A copy of a key, and until when it may be used, by the database's clock. */
export interface CachedKey {
  readonly row: KeyRow
  readonly usableUntilMs: number
}

/** What is written before the response's body. */
interface Head {
  readonly columns: CarriedColumns
  /** Of the body, the headers and how they are sealed. */
  readonly response: { readonly status: number; readonly headersJson: string } | null
  readonly usableUntilMs: number
}

const SIGNATURE_BYTES = 32
const TOKEN_BYTES = 32
const LENGTH_BYTES = 4
const HEAD_AT = SIGNATURE_BYTES + TOKEN_BYTES + LENGTH_BYTES

/**
 * Writes the value for a key: signature, epoch, length of the head, head, body. The signature ties it to its name. The response is
 * sealed as in the row.
 */
export function writeCachedKey(
  tables: Tables,
  { row, usableUntilMs }: CachedKey,
  name: string,
  epoch: KnownEpoch,
): Buffer {
  const { response } = row
  const sealed = response === null ? null : sealResponse(tables, row, response)
  const columns = Object.fromEntries(
    CARRIED_NAMES.map((each) => [each, row[each]]),
  ) as unknown as CarriedColumns
  const head: Head = {
    columns,
    response:
      response === null || sealed === null
        ? null
        : { status: response.status, headersJson: sealed.headersJson },
    usableUntilMs,
  }
  const headBytes = Buffer.from(JSON.stringify(head))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(headBytes.length)
  const signed = Buffer.concat([epoch.token, length, headBytes, sealed?.body ?? Buffer.alloc(0)])
  return Buffer.concat([signatureOf(signed, name, epoch), signed])
}

/**
 * Reads a value. Returns null if it was not written under this name and epoch, whatever else it is, or does not open. `nowMs`: the database's clock
 * by now, at the most.
 */
export function readCachedKey(
  tables: Tables,
  value: Uint8Array,
  { scope, key, name }: { readonly scope: string; readonly key: string; readonly name: string },
  epoch: KnownEpoch,
  nowMs: number,
): CachedKey | null {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (bytes.length < HEAD_AT) return null
  const signed = bytes.subarray(SIGNATURE_BYTES)
  if (signed.compare(epoch.token, 0, TOKEN_BYTES, 0, TOKEN_BYTES) !== 0) return null
  if (!timingSafeEqual(bytes.subarray(0, SIGNATURE_BYTES), signatureOf(signed, name, epoch))) return null
  // From here on it is what an engine has written.
  const bodyAt = HEAD_AT + bytes.readUInt32BE(SIGNATURE_BYTES + TOKEN_BYTES)
  const { columns, response, usableUntilMs } = JSON.parse(bytes.toString('utf8', HEAD_AT, bodyAt)) as Head
  const row: KeyRow = { ...columns, ...LEFT_OUT, scope, key, response: null, nowMs }
  if (response === null) return { row, usableUntilMs }
  const { status, headersJson } = response
  const opened = new Opening(tables, row).response(status, headersJson, Buffer.from(bytes.subarray(bodyAt)))
  return opened === null ? null : { row: { ...row, response: opened }, usableUntilMs }
}

/** As for a finished key that is only replayed. */
const LEFT_OUT = {
  inputJson: 'null',
  stateJson: '{}',
  intent: null,
  lastError: null,
  trail: [],
  traceparent: null,
  storedBytes: 0,
  sealed: null,
} as const

function signatureOf(signed: Uint8Array, name: string, { signing }: KnownEpoch): Buffer {
  return Buffer.from(signing.hash(Buffer.concat([Buffer.from(name), signed])), 'hex')
}
