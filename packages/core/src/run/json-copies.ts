/** Parses a JSON text. Each caller gets its own copy, and all copies but the first cost less than to parse it again. */
export class JsonCopies {
  #text = '{}'
  #value: unknown = {}

  of(text: string): unknown {
    if (text !== this.#text) {
      this.#value = JSON.parse(text) as unknown
      this.#text = text
    }
    return copyJson(this.#value)
  }
}

/** For values that JSON.parse gave: nothing but plain objects, arrays and what has no members. */
function copyJson(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copyJson)
  const copy = { ...value } as Record<string, unknown>
  for (const name of Object.keys(copy)) {
    const member = copy[name]
    if (typeof member === 'object' && member !== null) copy[name] = copyJson(member)
  }
  return copy
}
