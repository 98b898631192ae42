import * as crypto from 'node:crypto'

/** Node has it from 20.12 on. What `createHash` makes outlives many requests, until the next full collection. */
const { hash } = crypto as { readonly hash?: typeof crypto.hash }

/** The SHA-256 of a text, in hexadecimal or base64url digits. */
export function sha256(text: string, encoding: 'hex' | 'base64url'): string {
  return hash === undefined
    ? crypto.createHash('sha256').update(text).digest(encoding)
    : hash('sha256', text, encoding)
}
