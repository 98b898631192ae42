import type { JsonValue } from '@pawl/core'
import type { Choose } from './json.js'

/** The value with one small change somewhere in it, which a careless comparison would miss. */
export function changeJson(value: JsonValue, choose: Choose): JsonValue {
  if (typeof value === 'string') return changeText(value, choose)
  if (typeof value === 'number') return changeNumber(value, choose)
  if (typeof value === 'boolean') return choose(2) === 0 ? !value : String(value)
  if (value === null) return choose(2) === 0 ? 'null' : {}
  if (Array.isArray(value)) return changeList(value, choose)
  return changeObject(Object.entries(value) as [string, JsonValue][], choose)
}

function changeText(text: string, choose: Choose): JsonValue {
  const asUtf8 = text.replaceAll(/\p{Surrogate}/gu, '\ufffd')
  return [`${text} `, asUtf8, text.normalize('NFD'), `${text}\ud800`, [text]][choose(5)] ?? null
}

function changeNumber(value: number, choose: Choose): JsonValue {
  return (
    [String(value), -value, value + 1, value === 0 ? 5e-324 : value * (1 - Number.EPSILON)][choose(4)] ?? 0
  )
}

function changeList(items: readonly JsonValue[], choose: Choose): JsonValue {
  switch (items.length === 0 ? 1 : choose(5)) {
    case 0:
      return items.toReversed()
    case 1:
      return [...items, null]
    case 2:
      return Object.fromEntries(items.entries())
    default: {
      const at = choose(items.length)
      return items.map((item, index) => (index === at ? changeJson(item, choose) : item))
    }
  }
}

function changeObject(members: readonly (readonly [string, JsonValue])[], choose: Choose): JsonValue {
  const at = members.length === 0 ? 0 : choose(members.length)
  switch (members.length === 0 ? 0 : choose(5)) {
    case 0:
      return Object.fromEntries([...members, ['__proto__', {}]])
    case 1:
      return Object.fromEntries(members.filter((_, index) => index !== at))
    case 2:
      return Object.fromEntries(
        members.map(([name, member], index) => [index === at ? `${name}\0` : name, member]),
      )
    default:
      return Object.fromEntries(
        members.map(([name, member], index) => [name, index === at ? changeJson(member, choose) : member]),
      )
  }
}
