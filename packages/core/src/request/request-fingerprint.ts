import { KeyedHash } from '../keyed-hash.js'
import { lengthPrefixed } from '../length-prefixed.js'
import type { FingerprintSecret, Protection } from '../protection.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { ORIGIN_BYTES } from './fingerprint.js'

/** A plain hash of the request, which says who sent the same without any secret. */
const PLAIN = 1
/** A keyed hash of that hash, of the scope and of the key: the same request of somebody else says nothing about this one. */
const KEYED = 2

/** A stored fingerprint begins with the hash of the request. */
const REQUEST_BYTES = 32
/** Then comes, if the key is bound, the hash of what it is bound to. In a keyed one, zeros if it is not. */
const BINDING_BYTES = 16
/** In a keyed one: what tells two keys of the same id apart, and then the id, to the end. */
const CHECK_BYTES = 4

const UNBOUND = Buffer.alloc(BINDING_BYTES)

/** The columns of a row that say which request it is. */
type Stored = Pick<KeyRow, 'fingerprint' | 'fingerprintVersion'>

/** Whose request it is. */
type Name = Pick<KeyRow, 'scope' | 'key'>

/** Whether a row is that of a request. `unknown`: it cannot be told here, so the row must not be touched. */
export type Comparison =
  | { readonly type: 'same' }
  | { readonly type: 'other' }
  | { readonly type: 'unknown'; readonly detail: string }

const SAME = { type: 'same' } as const
const OTHER = { type: 'other' } as const

/** What requests are compared by. */
export interface ComparedRequest {
  compare(row: Stored): Comparison
}

interface Keyed {
  readonly of: FingerprintSecret
  readonly hash: KeyedHash
  readonly check: Buffer
}

/** The secrets that fingerprints and bindings are made with, if there are any. */
export class FingerprintSecrets {
  readonly #protection: Protection | null
  readonly #hashSecret: KeyedHash | null
  readonly #keyed = new Map<string, Keyed>()

  constructor(protection: Protection | null, hashSecret: string | null) {
    this.#protection = protection
    this.#hashSecret = hashSecret === null ? null : new KeyedHash(Buffer.from(hashSecret))
  }

  /** Whether a key may be bound: a plain hash of a session's id would be as good as the id. */
  get canBind(): boolean {
    return this.#protection !== null || this.#hashSecret !== null
  }

  get hashSecret(): KeyedHash | null {
    return this.#hashSecret
  }

  /** Null stands for the current key. Returns null if that key is not there, or fingerprints are not keyed. */
  keyed(keyId: string | null): Keyed | null {
    const of = this.#protection?.fingerprintSecret(keyId) ?? null
    if (of === null) return null
    const known = this.#keyed.get(of.keyId)
    if (known !== undefined && sameBytes(known.of.secret, of.secret)) return known
    const hash = new KeyedHash(of.secret)
    const check = Buffer.from(hash.hash(Buffer.from('check:')), 'hex').subarray(0, CHECK_BYTES)
    const keyed = { of, hash, check }
    this.#keyed.set(of.keyId, keyed)
    return keyed
  }
}

const sameBytes = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0

/** Whom a key is bound to. */
export interface Binding extends Name {
  readonly bindTo: string
}

/** One request's fingerprint, in whichever version it is asked for. */
export class RequestFingerprint implements ComparedRequest {
  readonly #secrets: FingerprintSecrets
  readonly #plain: Buffer
  readonly #hasOrigin: boolean
  readonly #name: Name
  readonly #binding: Binding | null

  /** `hasOrigin`: the first bytes say where the request came in. */
  constructor(
    secrets: FingerprintSecrets,
    plain: Buffer,
    hasOrigin: boolean,
    { scope, key, bindTo }: Name & { readonly bindTo?: string | undefined },
  ) {
    this.#secrets = secrets
    this.#plain = plain
    this.#hasOrigin = hasOrigin
    this.#name = { scope, key }
    this.#binding = bindTo === undefined ? null : { scope, key, bindTo }
  }

  /** What a new row is stored with. */
  toStore(): { readonly fingerprint: Buffer; readonly version: number } {
    const keyed = this.#secrets.keyed(null)
    if (keyed !== null) return { fingerprint: this.#keyedWith(keyed), version: KEYED }
    const { hashSecret } = this.#secrets
    const bound =
      this.#binding === null || hashSecret === null ? [] : [bindingHash(hashSecret, this.#binding)]
    return {
      fingerprint: bound.length === 0 ? this.#plain : Buffer.concat([this.#plain, ...bound]),
      version: PLAIN,
    }
  }

  /** Compares with a row's, in the version and with the key that the row was made with. */
  compare(row: Stored): Comparison {
    switch (row.fingerprintVersion) {
      case PLAIN:
        return this.#comparePlain(row)
      case KEYED: {
        const keyed = keyedOf(this.#secrets, row)
        if ('type' in keyed) return keyed
        return this.#keyedWith(keyed).toString('hex') === row.fingerprint ? SAME : OTHER
      }
      default:
        return unknownVersion(row)
    }
  }

  #comparePlain({ fingerprint, fingerprintVersion }: Stored): Comparison {
    const requestDigits = REQUEST_BYTES * 2
    if (fingerprint.slice(0, requestDigits) !== this.#plain.toString('hex')) return OTHER
    return compareBinding(this.#secrets, { fingerprint, fingerprintVersion }, this.#binding)
  }

  #keyedWith({ of, hash, check }: Keyed): Buffer {
    const request = hashOf(hash, 'request', this.#name, this.#plain)
    if (this.#hasOrigin) keyedOrigin(hash, this.#name, this.#plain.subarray(0, ORIGIN_BYTES)).copy(request)
    const binding = this.#binding === null ? UNBOUND : bindingHash(hash, this.#binding)
    return Buffer.concat([request, binding, check, Buffer.from(of.keyId)])
  }
}

/** Whether a row's request came in there. `origin`: the first bytes of a plain fingerprint. */
export function compareOrigin(secrets: FingerprintSecrets, row: Stored & Name, origin: Buffer): Comparison {
  const stored = Buffer.from(row.fingerprint, 'hex').subarray(0, ORIGIN_BYTES)
  if (row.fingerprintVersion !== KEYED) return sameBytes(stored, origin) ? SAME : OTHER
  const keyed = keyedOf(secrets, row)
  if ('type' in keyed) return keyed
  return sameBytes(stored, keyedOrigin(keyed.hash, row, origin)) ? SAME : OTHER
}

/** Whether a row is bound to the same, or likewise to nothing. */
export function compareBinding(
  secrets: FingerprintSecrets,
  row: Stored,
  binding: Binding | null,
): Comparison {
  const stored = Buffer.from(row.fingerprint, 'hex').subarray(REQUEST_BYTES, REQUEST_BYTES + BINDING_BYTES)
  switch (row.fingerprintVersion) {
    case PLAIN: {
      if (binding === null || stored.length === 0)
        return (binding === null) === (stored.length === 0) ? SAME : OTHER
      const { hashSecret } = secrets
      if (hashSecret === null)
        return { type: 'unknown', detail: 'it was bound with a hashSecret, and there is none here' }
      return sameBytes(stored, bindingHash(hashSecret, binding)) ? SAME : OTHER
    }
    case KEYED: {
      const keyed = keyedOf(secrets, row)
      if ('type' in keyed) return keyed
      return sameBytes(stored, binding === null ? UNBOUND : bindingHash(keyed.hash, binding)) ? SAME : OTHER
    }
    default:
      return unknownVersion(row)
  }
}

/** Whether fingerprints of that version are made here at all. */
export function isKnownVersion({ fingerprintVersion }: Stored): boolean {
  return fingerprintVersion === PLAIN || fingerprintVersion === KEYED
}

export function unknownVersion({ fingerprintVersion }: Stored): Extract<Comparison, { type: 'unknown' }> {
  return { type: 'unknown', detail: `fingerprint version ${fingerprintVersion} is not known here` }
}

/** The key that a row's fingerprint was made with, if it is here. */
function keyedOf(
  secrets: FingerprintSecrets,
  { fingerprint }: Stored,
): Keyed | Extract<Comparison, { type: 'unknown' }> {
  const rest = Buffer.from(fingerprint, 'hex').subarray(REQUEST_BYTES + BINDING_BYTES)
  const keyId = rest.toString('utf8', CHECK_BYTES)
  const keyed = secrets.keyed(keyId)
  if (keyed === null)
    return {
      type: 'unknown',
      detail: `its fingerprint was made with key '${keyId}', which is not among those of protect`,
    }
  if (!sameBytes(rest.subarray(0, CHECK_BYTES), keyed.check))
    return {
      type: 'unknown',
      detail: `its fingerprint was made with another key than the one that is called '${keyId}' here`,
    }
  return keyed
}

/** An address may hold a name or a number that could be found out by trying. */
const keyedOrigin = (hash: KeyedHash, name: Name, origin: Uint8Array): Buffer =>
  hashOf(hash, 'origin', name, origin).subarray(0, ORIGIN_BYTES)

const bindingHash = (hash: KeyedHash, { bindTo, ...name }: Binding): Buffer =>
  hashOf(hash, 'binding', name, Buffer.from(lengthPrefixed([bindTo]))).subarray(0, BINDING_BYTES)

/** `what` comes last and the names have their lengths before them, so that no two lists of parts yield the same bytes. */
function hashOf(hash: KeyedHash, purpose: string, { scope, key }: Name, what: Uint8Array): Buffer {
  const head = Buffer.from(`${purpose}:${lengthPrefixed([scope, key])}`)
  return Buffer.from(hash.hash(Buffer.concat([head, what])), 'hex')
}
