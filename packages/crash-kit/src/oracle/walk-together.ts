import type { JsonValue } from '@pawl/core'
import type { Path } from './json-path.js'
import { isObject } from './same-json.js'

export type Scalar = string | number | boolean | null

/** The parts of two values, side by side. */
export interface Together {
  /** Single values that both have. */
  readonly leaves: { readonly path: Path; readonly one: Scalar; readonly other: Scalar }[]
  /** Where one has something that the other has not, or something of another type. */
  readonly shapes: {
    readonly path: Path
    readonly one: JsonValue | undefined
    readonly other: JsonValue | undefined
  }[]
}

/** Walks through two values at once, without paths that `isIgnored`, and everything below them. */
export function walkTogether(one: JsonValue, other: JsonValue, isIgnored: (path: Path) => boolean): Together {
  const together: Together = { leaves: [], shapes: [] }
  const walk = (path: Path, left: JsonValue | undefined, right: JsonValue | undefined): void => {
    if (isIgnored(path)) return
    if (isScalar(left) && isScalar(right)) together.leaves.push({ path, one: left, other: right })
    else if (Array.isArray(left) && Array.isArray(right)) {
      for (let at = 0; at < Math.max(left.length, right.length); at++) {
        walk([...path, at], left[at] as JsonValue | undefined, right[at] as JsonValue | undefined)
      }
    } else if (isObject(left) && isObject(right)) {
      for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
        walk([...path, name], left[name], right[name])
      }
    } else together.shapes.push({ path, one: left, other: right })
  }
  walk([], one, other)
  return together
}

function isScalar(value: JsonValue | undefined): value is Scalar {
  return value === null || (value !== undefined && typeof value !== 'object')
}
