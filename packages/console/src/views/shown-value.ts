import type { JsonValue } from '@pawl/core'
import type { Shown } from '../api.js'
import { MAX_REVEALED_BYTES } from '../limits.js'

/** What a client or a provider sent: its size, or all of it where somebody has asked for that. */
export function shownValue(value: JsonValue, reveal: boolean): Shown {
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (!reveal) return { hidden: true, bytes }
  return bytes > MAX_REVEALED_BYTES
    ? { hidden: false, bytes, tooLarge: true }
    : { hidden: false, bytes, value }
}

/** The same for the bytes of a response: text where they are text. */
export function shownBytes(body: Buffer, reveal: boolean): Shown {
  const bytes = body.length
  if (!reveal) return { hidden: true, bytes }
  if (bytes > MAX_REVEALED_BYTES) return { hidden: false, bytes, tooLarge: true }
  const text = decode(body)
  return text === null
    ? { hidden: false, bytes, base64: body.toString('base64') }
    : { hidden: false, bytes, value: text }
}

/** Null where the bytes are not UTF-8. */
function decode(body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    return null
  }
}
