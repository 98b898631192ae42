/** Parses a JSON text. Each caller gets its own copy, and every copy but the first costs less than parsing again. */
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

/** For values that JSON.parse returned: only plain objects, arrays, and values without members. */
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
