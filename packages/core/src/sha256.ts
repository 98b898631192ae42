import * as crypto from 'node:crypto'

/**
 * Node has `hash` from 20.12 on. The objects that `createHash` makes outlive many requests, until the next full
 * collection.
 */
const { hash } = crypto as { readonly hash?: typeof crypto.hash }

/** The SHA-256 of a text (as UTF-8) or of bytes, in hexadecimal or base64url digits. */
export function sha256(data: string | Uint8Array, encoding: 'hex' | 'base64url'): string {
  return hash === undefined
    ? crypto.createHash('sha256').update(data).digest(encoding)
    : hash('sha256', data, encoding)
}
