import { invalidOption, type OptionOwner } from '../check-option.js'

/** A cursor as callers get it: opaque, and fit for a URL. */
export function writeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

const MICROSECONDS = /^-?\d{1,18}$/

/** The parts of a cursor that `writeCursor` made: first a moment in microseconds, then names. */
export function readCursor(
  owner: OptionOwner,
  option: string,
  cursor: unknown,
  count: number,
): readonly string[] {
  const parts = typeof cursor === 'string' ? partsOf(cursor) : null
  const isOurs =
    parts?.length === count &&
    parts.every((part) => typeof part === 'string' && !part.includes('\u0000')) &&
    MICROSECONDS.test(parts[0] as string)
  if (!isOurs) throw invalidOption(owner, option, cursor, 'the cursor that the page before came with')
  return parts as readonly string[]
}

function partsOf(cursor: string): readonly unknown[] | null {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    return Array.isArray(parts) ? parts : null
  } catch {
    return null
  }
}
