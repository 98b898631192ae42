import type { JsonValue } from '@pawl/core'
import { MAX_SHOWN_VALUE } from '../limits.js'

/** Returns JSON text with sorted members, so that equal values have equal text. */
export function jsonText(value: JsonValue | undefined): string {
  return JSON.stringify(sorted(value)) ?? 'undefined'
}

export function isSameJson(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  return jsonText(one) === jsonText(other)
}

/** Returns a value as a violation shows it. */
export function shown(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value)
  return text.length > MAX_SHOWN_VALUE ? `${text.slice(0, MAX_SHOWN_VALUE)}…` : text
}

export function isObject(value: JsonValue | undefined): value is { readonly [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function sorted(value: JsonValue | undefined): JsonValue | undefined {
  if (Array.isArray(value)) return value.map((each: JsonValue) => sorted(each) ?? null)
  if (!isObject(value)) return value
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, each]) => [name, sorted(each)]))
}
