import type { JsonValue } from '@pawl/core'
import type { Choose } from './json.js'

/**
 * JSON text of a value, written in ways that clients may use: with white space, members in any order or given twice (the
 * last one counts), numbers with exponents and superfluous zeros, and escapes where none are needed.
 */
export function spellJson(value: JsonValue, choose: Choose): string {
  return `${blank(choose)}${spell(value, choose)}${blank(choose)}`
}

function spell(value: JsonValue, choose: Choose): string {
  if (typeof value === 'string') return spellText(value, choose)
  if (typeof value === 'number') return spellNumber(value, choose)
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value))
    return `[${value.map((item: JsonValue) => spellJson(item, choose)).join(',') || blank(choose)}]`
  const members = shuffled(Object.entries(value), choose).map(([name, member]) => {
    const spelt = `${blank(choose)}${spellText(name, choose)}${blank(choose)}:`
    const last = `${spelt}${spellJson(member as JsonValue, choose)}`
    return choose(6) === 0 ? `${spelt}{"overwritten":[1]},${last}` : last
  })
  return `{${members.join(',') || blank(choose)}}`
}

function blank(choose: Choose): string {
  return ['', '', '', ' ', '\n', '\t\r\n  '][choose(6)] ?? ''
}

function shuffled<T>(items: readonly T[], choose: Choose): T[] {
  const left = [...items]
  return items.flatMap(() => left.splice(choose(left.length), 1))
}

function spellNumber(value: number, choose: Choose): string {
  const plain = Object.is(value, -0) ? '-0' : String(value)
  const isWhole = /^-?\d+$/.test(plain)
  switch (choose(5)) {
    case 0:
      return isWhole ? `${plain}.000` : plain
    case 1:
      return isWhole && value !== 0 ? `${plain}0e-1` : plain
    case 2:
      return value.toExponential().replace('e', 'E')
    case 3:
      return plain.includes('e') ? plain : `${plain}E+00`
    default:
      return plain
  }
}

function spellText(text: string, choose: Choose): string {
  const spelt = Array.from({ length: text.length }, (_, at) => {
    const unit = text.charAt(at)
    // Half of a pair next to its other half becomes the same text either way once it is parsed.
    const mustEscape = unit < ' ' || unit === '"' || unit === '\\' || (unit >= '\ud800' && unit <= '\udfff')
    if (unit === '/' && choose(2) === 0) return '\\/'
    if (!mustEscape && choose(4) !== 0) return unit
    const hex = text.charCodeAt(at).toString(16).padStart(4, '0')
    return `\\u${choose(2) === 0 ? hex : hex.toUpperCase()}`
  })
  return `"${spelt.join('')}"`
}
