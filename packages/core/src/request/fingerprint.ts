import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { PawlError } from '../errors.js'
import { checkJson, type JsonValue } from '../pipeline/json-value.js'
import { sha256 } from '../sha256.js'

/** How many bytes of a fingerprint name where its request came in, if it says so. */
export const ORIGIN_BYTES = 8

/** A fingerprint that also says where the request came in, so that its key can only be asked for from there. */
export class OriginFingerprint {
  readonly origin: string
  readonly request: JsonValue

  constructor(origin: string, request: JsonValue) {
    this.origin = origin
    this.request = request
  }
}

/** The first bytes of the fingerprints of all requests that came in there. */
export function originOf(origin: string): Buffer {
  return Buffer.from(sha256(`origin:${origin}`, 'hex'), 'hex').subarray(0, ORIGIN_BYTES)
}

/**
 * Identifies a request. Fingerprints are equal exactly when the canonical JSON (RFC 8785) is equal, so key order, white
 * space and the spelling of numbers do not matter. Bytes are taken as they are, and never equal a JSON value.
 */
export function fingerprintOf(request: JsonValue | Uint8Array | OriginFingerprint): Buffer {
  if (request instanceof OriginFingerprint) {
    return Buffer.concat([originOf(request.origin), fingerprintOf(request.request).subarray(ORIGIN_BYTES)])
  }
  if (request instanceof Uint8Array) return createHash('sha256').update('bytes:').update(request).digest()
  // A Map, a FormData or a promise would all be `{}`, and so the same request.
  checkJson(request, 'the value to take the fingerprint of')
  return fingerprintOfChecked(request)
}

/** The same for a value that is already known to be JSON. */
export function fingerprintOfChecked(request: JsonValue): Buffer {
  let canonical: string | undefined
  try {
    canonical = isInOrder(request) ? JSON.stringify(request) : canonicalize(request)
  } catch (error) {
    throw new PawlError('PAWL_NOT_JSON', 'The value to take the fingerprint of is not JSON.', {
      cause: error,
    })
  }
  if (canonical === undefined)
    throw new PawlError('PAWL_NOT_JSON', 'The value to take the fingerprint of is undefined.')
  return Buffer.from(sha256(`json:${canonical}`, 'hex'), 'hex')
}

/** Whether the members are already sorted: then what JSON.stringify writes is canonical, at a fifth of the cost. */
function isInOrder(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) return value.every(isInOrder)
  let last: string | null = null
  for (const name of Object.keys(value)) {
    if (last !== null && name < last) return false
    last = name
    if (!isInOrder((value as Record<string, unknown>)[name])) return false
  }
  return true
}
