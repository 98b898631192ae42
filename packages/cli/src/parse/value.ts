import { isUuid } from '@pawl/core/internal'
import type { JsonValue } from '@pawl/core'
import { usageError } from '../cli-error.js'

/** Any text that is not blank. */
export function parseText(text: string): string {
  if (text.trim() === '') throw usageError('it is empty.')
  return text
}

export function parseWholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d{1,15}$/.test(text) && value >= min && value <= max) return value
    throw usageError(`'${text}' is not a whole number from ${min} to ${max}.`)
  }
}

export function parseOneOf<const Name extends string>(names: readonly Name[]): (text: string) => Name {
  return (text) => {
    const found = names.find((name) => name === text)
    if (found !== undefined) return found
    throw usageError(`'${text}' is not one of ${names.join(', ')}.`)
  }
}

export function parseJson(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch (error) {
    throw usageError(
      `it is not JSON: ${(error as Error).message}. A string needs its own quotes: '"like this"'.`,
    )
  }
}

export function parseUuid(text: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw usageError(`'${text}' is not an id; it has to be like 4a1722e4-98a0-4ec6-8e57-78856650c621.`)
}

/** `name: value`. */
export function parseHeader(text: string): readonly [name: string, value: string] {
  const [, name, value] = /^([^\s:]+):\s*(.*)$/s.exec(text) ?? []
  if (name !== undefined && value !== undefined) return [name.toLowerCase(), value.trim()]
  throw usageError(`'${text}' is not a header; it has to be like 'location: /rides/1'.`)
}

/** `pipeline@version`. */
export function parsePipelineVersion(text: string): { readonly pipeline: string; readonly version: number } {
  const [, pipeline, version] = /^(.+)@(\d{1,9})$/.exec(text) ?? []
  if (pipeline !== undefined && version !== undefined) return { pipeline, version: Number(version) }
  throw usageError(`'${text}' is not the version of a pipeline; it has to be like create-ride@1.`)
}
