/**
 * RFC 8785 a second time, without a library or JSON.stringify, to compare with. One thing is added: half of a
 * surrogate pair, which JSON text can hold and UTF-8 cannot, is written as its escape.
 */
export function canonicalForm(value: unknown): string {
  if (value === null) return 'null'
  switch (typeof value) {
    case 'boolean':
      return value ? 'true' : 'false'
    case 'number':
      // The RFC asks for ECMAScript's own formatting. There is only one zero.
      return String(value === 0 ? 0 : value)
    case 'string':
      return quoted(value)
    case 'object':
      return Array.isArray(value) ? `[${value.map(canonicalForm).join(',')}]` : canonicalObject(value)
    default:
      throw new TypeError(`A ${typeof value} is not JSON.`)
  }
}

function canonicalObject(value: object): string {
  const members = Object.entries(value).toSorted(([one], [other]) => byCodeUnits(one, other))
  return `{${members.map(([name, member]) => `${quoted(name)}:${canonicalForm(member)}`).join(',')}}`
}

function byCodeUnits(one: string, other: string): number {
  for (let at = 0; at < Math.min(one.length, other.length); at++) {
    const difference = one.charCodeAt(at) - other.charCodeAt(at)
    if (difference !== 0) return difference
  }
  return one.length - other.length
}

const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'],
  ['\\', '\\\\'],
  ['\b', '\\b'],
  ['\t', '\\t'],
  ['\n', '\\n'],
  ['\f', '\\f'],
  ['\r', '\\r'],
])

function quoted(text: string): string {
  // This goes by code points: a pair of surrogates is one, and a half stays on its own.
  const characters = Array.from(text, (character) => {
    const short = SHORT_ESCAPES.get(character)
    if (short !== undefined) return short
    const code = character.codePointAt(0) ?? 0
    const isHalf = code >= 0xd800 && code <= 0xdfff
    return code < 0x20 || isHalf ? `\\u${code.toString(16).padStart(4, '0')}` : character
  })
  return `"${characters.join('')}"`
}
