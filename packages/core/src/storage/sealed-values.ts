import { isPawlError, PawlError } from '../errors.js'
import type { StoredResponse } from '../pipeline/directive.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { ProtectedPlace } from '../protection.js'
import type { Intent } from './keys/key-row.js'
import type { Tables } from './tables.js'

/**
 * How values are written to the columns that `protect` hides, and read from them: all statements go through here. A sealed value
 * is a text that begins with a mark, in a `json` column as a JSON string. What is plain and begins with the mark, because a
 * client sent it so, gets a space in front, which JSON ignores: so nothing plain is ever taken for sealed.
 */
const MARK = 'pawl:sealed:'
const JSON_MARK = `"${MARK}`

/** The row that a value belongs to: of a key, or (without `key`) of a job. */
export interface RowName {
  readonly id: string
  readonly scope: string
  readonly key?: string
}

export type SealedColumn = 'input' | 'state' | 'intent' | 'response_body' | 'last_error' | 'payload'

function placeOf({ id, scope, key }: RowName, column: SealedColumn): ProtectedPlace {
  return { scope, row: key === undefined ? id : `${id} ${key}`, column }
}

function seal(tables: Tables, of: RowName, column: SealedColumn, plain: Uint8Array | string): string | null {
  const { protection } = tables
  if (protection === null) return null
  const bytes = typeof plain === 'string' ? Buffer.from(plain) : plain
  const sealed = protection.seal(bytes, placeOf(of, column))
  return `${MARK}${sealed.keyId}:${bufferOn(sealed.bytes).toString('base64')}`
}

/** Not a copy. */
function bufferOn({ buffer, byteOffset, byteLength }: Uint8Array): Buffer<ArrayBuffer> {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}

export function sealJson(tables: Tables, of: RowName, column: SealedColumn, json: string): string {
  const sealed = seal(tables, of, column, json)
  if (sealed !== null) return `"${sealed}"`
  return json.startsWith(JSON_MARK) ? ` ${json}` : json
}

export function sealText(
  tables: Tables,
  of: RowName,
  column: SealedColumn,
  text: string | null,
): string | null {
  if (text === null) return null
  return seal(tables, of, column, text) ?? (text.startsWith(MARK) ? ` ${text}` : text)
}

/** What kind of intent it is, and of which phase, stays in the clear: statements and people decide by it. */
export function sealIntent(tables: Tables, of: RowName, intent: Intent | null): string | null {
  if (intent?.kind !== 'called' || tables.protection === null)
    return intent === null ? null : JSON.stringify(intent)
  const { kind, phase, result, ...more } = intent
  const sealed = seal(tables, of, 'intent', JSON.stringify(result))
  return JSON.stringify({ kind, phase, sealed, ...more })
}

/** A response as it is stored: where it is sealed, the body has the headers in it, and the headers say so. */
export function sealResponse(
  tables: Tables,
  of: RowName,
  { headers, body }: StoredResponse,
): { readonly headersJson: string; readonly body: Buffer } {
  const headersJson = JSON.stringify(headers)
  const { protection } = tables
  if (protection === null) return { headersJson, body }
  const head = Buffer.from(headersJson)
  const plain = Buffer.allocUnsafe(LENGTH_BYTES + head.length + body.length)
  plain.writeUInt32BE(head.length)
  plain.set(head, LENGTH_BYTES)
  plain.set(body, LENGTH_BYTES + head.length)
  const { keyId, bytes } = protection.seal(plain, placeOf(of, 'response_body'))
  return { headersJson: `"${MARK}${keyId}:"`, body: bufferOn(bytes) }
}

const LENGTH_BYTES = 4

/** Opens the values of one row. What does not open is replaced, and `failed` says why: then the row must not be acted on. */
export class Opening {
  failed: PawlError | null = null
  readonly #tables: Pick<Tables, 'protection'>
  readonly #of: RowName

  constructor(tables: Pick<Tables, 'protection'>, of: RowName) {
    this.#tables = tables
    this.#of = of
  }

  /** `instead`: what stands for a value that does not open. */
  json(column: SealedColumn, json: string, instead: string): string {
    if (!json.startsWith(JSON_MARK)) return json
    const opened = this.#open(column, json.slice(1, -1))
    return opened === null ? instead : opened.toString()
  }

  text(column: SealedColumn, text: string | null): string | null {
    if (text?.startsWith(MARK) !== true) return text
    return this.#open(column, text)?.toString() ?? null
  }

  intent(json: string | null | undefined): Intent | null {
    if (json == null) return null
    const intent = JSON.parse(json) as Intent & { readonly sealed?: string }
    if (intent.kind !== 'called' || intent.sealed === undefined) return intent
    const { sealed, ...more } = intent
    const opened = this.#open('intent', sealed)
    return { ...more, result: opened === null ? null : (JSON.parse(opened.toString()) as JsonValue) }
  }

  /** Null if it does not open: nobody must take anything else for the response. */
  response(status: number, headersJson: string, body: StoredResponse['body']): StoredResponse | null {
    if (!headersJson.startsWith(JSON_MARK))
      return { status, headers: JSON.parse(headersJson) as Record<string, string>, body }
    const keyId = headersJson.slice(JSON_MARK.length, headersJson.indexOf(':', JSON_MARK.length))
    const opened = this.#openBytes('response_body', keyId, body)
    if (opened === null) return null
    const bodyAt = LENGTH_BYTES + opened.readUInt32BE()
    const headers = JSON.parse(opened.toString('utf8', LENGTH_BYTES, bodyAt)) as Record<string, string>
    return { status, headers, body: opened.subarray(bodyAt) }
  }

  #open(column: SealedColumn, text: string): Buffer<ArrayBuffer> | null {
    const colon = text.indexOf(':', MARK.length)
    if (colon === -1) return this.#fail(damaged(column))
    return this.#openBytes(
      column,
      text.slice(MARK.length, colon),
      Buffer.from(text.slice(colon + 1), 'base64'),
    )
  }

  #openBytes(column: SealedColumn, keyId: string, bytes: Buffer): Buffer<ArrayBuffer> | null {
    const { protection } = this.#tables
    if (protection === null) return this.#fail(noProtection(column, keyId))
    try {
      return bufferOn(protection.open({ keyId, bytes }, placeOf(this.#of, column)))
    } catch (error) {
      return this.#fail(isPawlError(error) ? error : damaged(column, error))
    }
  }

  #fail(error: PawlError): null {
    this.failed ??= error
    return null
  }
}

function noProtection(column: string, keyId: string): PawlError {
  return new PawlError(
    'PAWL_KEY_MISSING',
    `A value in '${column}' was sealed with key '${keyId}', and no keys were given here: pass the option protect.`,
  )
}

function damaged(column: string, cause?: unknown): PawlError {
  return new PawlError('PAWL_SEALED', `A value in '${column}' does not open.`, { cause })
}
