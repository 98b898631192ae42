import type { JsonValue } from '@pawl/core'
import { KitError } from '../kit-error.js'
import { MAX_DIFFERENCES } from '../limits.js'
import { nameOf, namesIn, type Path } from './json-path.js'
import { isObject } from './same-json.js'

/** Returns whether a path is to be left out, because it or one above it is on the list. `*` stands for one name. */
export function ignoredPaths(ignore: readonly string[]): (path: Path) => boolean {
  const patterns = ignore.map((each) => each.split('.'))
  return (path) => {
    const names = namesIn(path)
    return patterns.some((pattern) => matches(pattern, names.slice(0, pattern.length)))
  }
}

/** Refuses a path that matches nothing: nobody would notice a typing mistake otherwise. */
export function checkIgnored(ignore: readonly string[], cleanRuns: readonly JsonValue[]): void {
  const known = new Map(
    cleanRuns.flatMap((run) => pathsIn([], run)).map((path) => [nameOf(path), namesIn(path)]),
  )
  for (const each of ignore) {
    const pattern = each.split('.')
    if ([...known.values()].some((names) => matches(pattern, names))) continue
    const near = [...known.keys()].filter((name) => name.startsWith(`${pattern[0]}.`))
    const some = (near.length > 0 ? near : [...known.keys()].filter((name) => name !== '')).slice(
      0,
      MAX_DIFFERENCES,
    )
    throw new KitError(
      'PAWL_KIT_INVALID_OPTION',
      `crashKit: ignore: '${each}' matches nothing in a run without faults. It takes paths such as ${some.join(', ')}; ` +
        "a path stands for everything below it, '*' for one name, and indexes do not count.",
    )
  }
}

function matches(pattern: readonly string[], names: readonly string[]): boolean {
  return pattern.length === names.length && pattern.every((each, at) => each === '*' || each === names[at])
}

function pathsIn(path: Path, value: JsonValue | undefined): Path[] {
  if (Array.isArray(value))
    return [path, ...value.flatMap((each: JsonValue, at) => pathsIn([...path, at], each))]
  if (!isObject(value)) return [path]
  return [path, ...Object.entries(value).flatMap(([name, each]) => pathsIn([...path, name], each))]
}
