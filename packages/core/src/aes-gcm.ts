import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomFillSync,
} from 'node:crypto'
import { checkKnownOptions, invalidOption, type OptionOwner } from './check-option.js'
import { PawlError } from './errors.js'
import { MAX_SCOPE_KEYS, NONCES_AT_A_TIME } from './limits.js'
import type { FingerprintSecret, ProtectedPlace, Protection, SealedValue } from './protection.js'

/** The keys of `aesGcm`. */
export interface AesGcmOptions {
  /**
   * Keys of 32 random bytes, by id: 1 to 32 letters, digits, `.`, `_` or `-`. Values name the id of their key, so keep a key for
   * as long as there is a row that was written with it.
   */
  readonly keys: Readonly<Record<string, Uint8Array>>
  /** The id of the key that new values are sealed with. Default: the only one. */
  readonly current?: string
  /**
   * Derives a key for each scope, so that no key ever seals the values of two. Switch it on before the first value is sealed, and
   * not off again. Default: off.
   */
  readonly perScope?: boolean
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'aesGcm' }
const OPTION_NAMES = ['keys', 'current', 'perScope'] as const satisfies readonly (keyof AesGcmOptions)[]

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const TAG = { authTagLength: TAG_BYTES }

/** Safe in JSON, in a log, and between the colons of a stored value. */
const KEY_ID = /^[A-Za-z0-9._-]{1,32}$/

/**
 * Protects values with AES-256-GCM of `node:crypto`: what is changed or moved does not open. To rotate, add a key everywhere,
 * then make it the current one everywhere; older values open with the key that they name.
 *
 * @example
 * const protect = aesGcm({ keys: { k1: Buffer.from(process.env.PAWL_KEY, 'hex') } })
 * const engine = createEngine({ pool, pipelines, protect })
 */
export function aesGcm(options: AesGcmOptions): Protection {
  // Never shown, whatever it is: the key itself is easily passed in place of the options.
  if (typeof options !== 'object' || options === null)
    throw new PawlError(OWNER.code, `${OWNER.where} takes { keys }, an object of keys by id.`)
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  return new AesGcm(checkKeys(options.keys), options.current, options.perScope ?? false)
}

/** Keys are never shown, whatever they are. */
function checkKeys(keys: unknown): ReadonlyMap<string, Uint8Array> {
  if (typeof keys !== 'object' || keys === null || Object.keys(keys).length === 0)
    throw new PawlError(OWNER.code, `${OWNER.where}: keys takes an object of one key or more, by id.`)
  const checked = new Map<string, Uint8Array>()
  for (const [id, key] of Object.entries(keys as Record<string, unknown>)) {
    if (!KEY_ID.test(id))
      throw new PawlError(
        OWNER.code,
        `${OWNER.where}: an id in keys takes 1 to 32 letters, digits, '.', '_' or '-'.`,
      )
    if (!(key instanceof Uint8Array) || key.length !== KEY_BYTES) {
      const got = key instanceof Uint8Array ? `${key.length} bytes` : `of type ${typeof key}`
      throw new PawlError(
        OWNER.code,
        `${OWNER.where}: keys.${id} is ${got}; it takes a Buffer of ${KEY_BYTES} bytes.`,
      )
    }
    // A copy: whoever clears the buffer afterwards must not change the key.
    checked.set(id, Uint8Array.from(key))
  }
  return checked
}

/** One key, and what is derived from it: a leak of one of those says nothing about the others. */
class DerivedKeys {
  readonly fingerprints: FingerprintSecret
  readonly #master: Uint8Array
  readonly #forAll: KeyObject
  /** Those of the scopes that were asked for last. */
  readonly #ofScopes = new Map<string, KeyObject>()

  constructor(keyId: string, master: Uint8Array) {
    this.#master = master
    this.#forAll = createSecretKey(derived(master, 'pawl:values', ''))
    this.fingerprints = { keyId, secret: derived(master, 'pawl:fingerprints', '') }
  }

  get forAll(): KeyObject {
    return this.#forAll
  }

  of(scope: string): KeyObject {
    let key = this.#ofScopes.get(scope)
    if (key === undefined) {
      key = createSecretKey(derived(this.#master, 'pawl:values of a scope', scope))
      const [oldest] = this.#ofScopes.keys()
      if (this.#ofScopes.size >= MAX_SCOPE_KEYS && oldest !== undefined) this.#ofScopes.delete(oldest)
      this.#ofScopes.set(scope, key)
    }
    return key
  }
}

function derived(master: Uint8Array, purpose: string, salt: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', master, salt, purpose, KEY_BYTES))
}

class AesGcm implements Protection {
  readonly #keys = new Map<string, DerivedKeys>()
  readonly #current: string
  readonly #perScope: boolean

  constructor(keys: ReadonlyMap<string, Uint8Array>, current: unknown, perScope: unknown) {
    const ids = [...keys.keys()]
    const chosen = current ?? (ids.length === 1 ? ids[0] : undefined)
    if (typeof chosen !== 'string' || !keys.has(chosen))
      throw new PawlError(
        OWNER.code,
        `${OWNER.where}: current takes the id of one of the keys: ${ids.join(', ')}.`,
      )
    if (typeof perScope !== 'boolean') throw invalidOption(OWNER, 'perScope', perScope, 'true or false')
    for (const [id, key] of keys) this.#keys.set(id, new DerivedKeys(id, key))
    this.#current = chosen
    this.#perScope = perScope
  }

  /** A nonce, the tag and the ciphertext. Nonces are random: with one key, seal no more than four billion values. */
  seal(plain: Uint8Array, at: ProtectedPlace): SealedValue {
    const keyId = this.#current
    const bytes = Buffer.allocUnsafe(NONCE_BYTES + TAG_BYTES + plain.length)
    putNonce(bytes)
    const cipher = createCipheriv(CIPHER, this.#keyOf(keyId, at), bytes.subarray(0, NONCE_BYTES), TAG)
    cipher.setAAD(boundTo(keyId, at))
    const body = cipher.update(plain)
    cipher.final()
    bytes.set(cipher.getAuthTag(), NONCE_BYTES)
    bytes.set(body, NONCE_BYTES + TAG_BYTES)
    return { keyId, bytes }
  }

  open({ keyId, bytes }: SealedValue, at: ProtectedPlace): Uint8Array {
    const key = this.#keyOf(keyId, at)
    if (bytes.length < NONCE_BYTES + TAG_BYTES) throw doesNotOpen(keyId, at, null)
    try {
      const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), TAG)
      decipher.setAAD(boundTo(keyId, at))
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      const plain = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES))
      // Throws unless every byte is as it was sealed.
      decipher.final()
      return plain
    } catch (error) {
      throw doesNotOpen(keyId, at, error)
    }
  }

  fingerprintSecret(keyId: string | null): FingerprintSecret | null {
    return this.#keys.get(keyId ?? this.#current)?.fingerprints ?? null
  }

  #keyOf(keyId: string, { scope, column }: ProtectedPlace): KeyObject {
    const keys = this.#keys.get(keyId)
    if (keys !== undefined) return this.#perScope ? keys.of(scope) : keys.forAll
    throw new PawlError(
      'PAWL_KEY_MISSING',
      `A value in '${column}' was sealed with key '${keyId}', which is not among the keys of aesGcm here.`,
    )
  }
}

/** What is authenticated along with a value. JSON, so that no two places read the same. */
function boundTo(keyId: string, { scope, row, column }: ProtectedPlace): Buffer {
  return Buffer.from(JSON.stringify([keyId, scope, row, column]))
}

function doesNotOpen(keyId: string, { column }: ProtectedPlace, cause: unknown): PawlError {
  return new PawlError(
    'PAWL_SEALED',
    `A value in '${column}' does not open with key '${keyId}': it was changed, or moved from another row or column, or ` +
      'another key had that id when it was sealed.',
    { cause },
  )
}

/** Random bytes cost less when many are asked for at once. */
const nonces = Buffer.alloc(NONCE_BYTES * NONCES_AT_A_TIME)
let used = nonces.length

function putNonce(into: Buffer): void {
  if (used === nonces.length) {
    randomFillSync(nonces)
    used = 0
  }
  nonces.copy(into, 0, used, used + NONCE_BYTES)
  used += NONCE_BYTES
}
