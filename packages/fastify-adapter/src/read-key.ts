import { parseItem, serializeItem } from 'structured-headers'
import { MAX_KEY_LENGTH } from './limits.js'
import type { Problem } from './problems.js'
import { rawHeader, withoutBlanks } from './raw-header.js'

/** What the client sent as its key. */
export type ReadKey =
  | { readonly type: 'given'; readonly key: string }
  | { readonly type: 'absent' }
  | { readonly type: 'unusable'; readonly problem: Problem }

/** Printable ASCII, without what ends or separates values: two headers that a proxy has joined are not a key. */
const BARE = /^[\x20-\x7e]+$/
const SEPARATORS = /[",]/

/**
 * Reads the key from the raw headers, where one that was sent twice is still seen twice. `"abc"`, a Structured Field
 * String, and bare `abc` name the same key.
 */
export function readKey(rawHeaders: readonly string[], name: string): ReadKey {
  const [text, ...others] = rawHeader(rawHeaders, name)
  if (text === undefined) return { type: 'absent' }
  if (others.length > 0) return repeated(name)
  return text.startsWith('"') ? readString(text, name) : readBare(text, name)
}

/** Writes a key as a header that `readKey` can read back: bare where possible. */
export function writeKey(key: string): string {
  return SEPARATORS.test(key) || withoutBlanks(key) !== key ? serializeItem([key, new Map()]) : key
}

function readString(text: string, name: string): ReadKey {
  try {
    const [key] = parseItem(text)
    if (typeof key === 'string') return checked(key, name)
  } catch {
    if (/^"(?:[^"\\]|\\.)*"\s*,/.test(text)) return repeated(name)
  }
  return unusable(`The header ${name} starts with a quote but is not a quoted string.`)
}

function readBare(text: string, name: string): ReadKey {
  if (text.includes(',')) return repeated(name)
  if (SEPARATORS.test(text))
    return unusable(`The key in ${name} contains a quote: send it as a quoted string.`)
  return checked(text, name)
}

function checked(key: string, name: string): ReadKey {
  if (key.length === 0) return unusable(`The header ${name} is empty.`)
  if (key.length > MAX_KEY_LENGTH)
    return unusable(`The key in ${name} has ${key.length} characters; the maximum is ${MAX_KEY_LENGTH}.`)
  if (!BARE.test(key)) return unusable(`The key in ${name} contains a character that is not printable ASCII.`)
  return { type: 'given', key }
}

function unusable(detail: string): ReadKey {
  return { type: 'unusable', problem: { code: 'idempotency_key_invalid', detail } }
}

function repeated(name: string): ReadKey {
  const detail = `The header ${name} was sent more than once, or contains more than one key.`
  return { type: 'unusable', problem: { code: 'idempotency_key_repeated', detail } }
}
