import type { OptionOwner } from './check-option.js'
import { PawlError } from './errors.js'

/** Where a value is stored. Sealed there, it can be opened nowhere else. */
export interface ProtectedPlace {
  /** Who owns the value. A codec may have a key for each scope. */
  readonly scope: string
  /** Identity of the row: no two rows have the same, and a row keeps its own for as long as it lives. */
  readonly row: string
  /** The table's column. */
  readonly column: string
}

/** A value that only somebody who has the key can read. */
export interface SealedValue {
  /** Which key it was sealed with: 1 to 32 letters, digits, `.`, `_` or `-`. It is stored beside the value, in the clear. */
  readonly keyId: string
  readonly bytes: Uint8Array
}

/** A secret that fingerprints are keyed with, and which key it comes from. */
export interface FingerprintSecret {
  readonly keyId: string
  /** 32 bytes. The same for the same key, always. */
  readonly secret: Uint8Array
}

/**
 * Hides what requests contain from whoever can read the database, or a backup of it. `aesGcm` is one; write your own if your
 * keys must not leave a device. It is asked for every value that is read or written, so it has to answer at once.
 */
export interface Protection {
  /** Seals a value with the current key, so that it opens at this place only. The same value is sealed differently each time. */
  seal(plain: Uint8Array, at: ProtectedPlace): SealedValue
  /**
   * Opens a value. Throws a PawlError with the code `PAWL_KEY_MISSING` if the key is not there, and with `PAWL_SEALED` if it does
   * not open: changed, cut, moved from another place, or sealed with another key of the same id.
   */
  open(sealed: SealedValue, at: ProtectedPlace): Uint8Array
  /** The secret of a key, or (null) of the current one, for fingerprints. Null if that key is not there. */
  fingerprintSecret(keyId: string | null): FingerprintSecret | null
}

/** Refuses what is not a codec. Returns null where none is given. */
export function checkProtection(owner: OptionOwner, protect: unknown): Protection | null {
  if (protect === undefined) return null
  const { seal, open, fingerprintSecret } = (protect ?? {}) as Partial<Protection>
  if ([seal, open, fingerprintSecret].every((member) => typeof member === 'function'))
    return protect as Protection
  // Never shown: it may be the key itself.
  throw new PawlError(owner.code, `${owner.where}: protect takes what aesGcm returns, or another codec.`)
}
