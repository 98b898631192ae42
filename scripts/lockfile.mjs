/**
 * One version of one package, as the lockfile names it.
 *
 * @typedef {{ id: string, name: string, version: string, integrity: string, isShipped: boolean, dependsOn: string[] }} LockedPackage
 */

/** The sections of pnpm's lockfile: what our packages ask for, what there is, and what that depends on. */
const SECTIONS = /^importers:\n(?<importers>.*)^packages:\n(?<packages>.*)^snapshots:\n(?<snapshots>.*)/ms

/**
 * Reads a lockfile of pnpm 10 (version 9.0), by hand: no YAML parser is among our own dependencies.
 *
 * `isShipped`: whether a user of our packages gets it, because it is among the `dependencies` or `optionalDependencies` of one of them, or of what is.
 *
 * @param {string} text
 * @param {readonly string[]} published the folders of the packages that we publish
 * @returns {LockedPackage[]}
 */
export function readLockfile(text, published) {
  const { importers = '', packages = '', snapshots = '' } = SECTIONS.exec(text)?.groups ?? {}
  const graph = new Map(
    blocks(snapshots, 2).map(([name, lines]) => [
      name,
      [...entries(lines, 'dependencies', 6), ...entries(lines, 'optionalDependencies', 6)],
    ]),
  )
  const asked = blocks(importers, 2).filter(([folder]) => published.includes(folder))
  const shipped = reachable(
    graph,
    asked.flatMap(([, lines]) => versions(lines)),
  )
  const shippedIds = new Set([...shipped].map(idOf))
  return blocks(packages, 2)
    .map(([id, lines]) => {
      const at = id.lastIndexOf('@')
      const [, integrity = ''] = /integrity: ([^,}\s]+)/.exec(lines) ?? []
      const dependsOn = [...graph].flatMap(([name, of]) => (idOf(name) === id ? of.map(idOf) : []))
      return {
        id,
        name: id.slice(0, at),
        version: id.slice(at + 1),
        integrity,
        isShipped: shippedIds.has(id),
        dependsOn: [...new Set(dependsOn)].toSorted(),
      }
    })
    .toSorted((one, other) => (one.id < other.id ? -1 : 1))
}

/**
 * The entries of a level, each with the lines below it.
 *
 * @param {string} text
 * @param {number} indent
 * @returns {[name: string, lines: string][]}
 */
function blocks(text, indent) {
  const pattern = new RegExp(
    `^ {${indent}}'?([^\\s'][^'\\n]*?)'?:(.*\\n(?:(?: {${indent + 1},}.*)?\\n)*)`,
    'gm',
  )
  return Array.from(text.matchAll(pattern), ([, name = '', lines = '']) => [name, lines])
}

/**
 * `name: version` below a heading, as `name@version`.
 *
 * @param {string} lines
 * @param {string} heading
 * @param {number} indent
 */
function entries(lines, heading, indent) {
  const [, list = ''] = new RegExp(`^ +${heading}:\\n((?: {${indent},}.*\\n)*)`, 'm').exec(lines) ?? []
  return blocks(list, indent).map(([name, version]) => `${name}@${version.trim()}`)
}

/**
 * What one of our packages depends on at run time.
 *
 * @param {string} lines
 */
function versions(lines) {
  const lists = Array.from(
    lines.matchAll(/^ {4}(?:optionalD|d)ependencies:\n((?: {6,}.*\n)*)/gm),
    ([, of = '']) => of,
  )
  return blocks(lists.join(''), 6).flatMap(([name, of]) => {
    const [, version = ''] = /^ +version: (.+)$/m.exec(of) ?? []
    return version.startsWith('link:') ? [] : [`${name}@${version}`]
  })
}

/**
 * @param {ReadonlyMap<string, string[]>} graph
 * @param {string[]} from
 */
function reachable(graph, from) {
  const found = new Set(from)
  for (const name of found) for (const next of graph.get(name) ?? []) found.add(next)
  return found
}

/**
 * Without the peers in brackets: `pg-pool@3.14.0(pg@8.23.1)` is `pg-pool@3.14.0`.
 *
 * @param {string} name
 */
function idOf(name) {
  return name.replace(/\(.*$/, '')
}
