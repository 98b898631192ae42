import { readdir, readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from './support/our-files.js'

/** Whom each folder, or file beside the folders, imports. */
type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Static imports, exports of other files and dynamic imports, of types too. */
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g

async function importGraph(folder: string): Promise<Graph> {
  const names = await readdir(join(ROOT, folder), { recursive: true })
  const graph = new Map<string, Set<string>>()
  for (const name of names.filter((each) => each.endsWith('.ts'))) {
    const source = await readFile(join(ROOT, folder, name), 'utf8')
    const from = nodeOf(name)
    const to = graph.get(from) ?? new Set()
    graph.set(from, to)
    for (const [, path = ''] of source.matchAll(IMPORT)) {
      const imported = nodeOf(posix.join(posix.dirname(name), path).replace(/\.js$/, '.ts'))
      if (imported !== from) to.add(imported)
    }
  }
  return graph
}

/** A file beside the folders stands for itself: some are below all folders, such as limits.ts, and some above. */
function nodeOf(file: string): string {
  return file.split('/')[0] ?? ''
}

const isFolder = (node: string): boolean => !node.endsWith('.ts')

/** A way from a folder back to itself, over whatever; null where there is none. */
function cycleIn(graph: Graph): string | null {
  for (const folder of [...graph.keys()].filter(isFolder)) {
    const way = wayTo(folder, [folder], graph, new Set())
    if (way !== null) return way.join(' → ')
  }
  return null
}

function wayTo(
  target: string,
  way: readonly string[],
  graph: Graph,
  seen: Set<string>,
): readonly string[] | null {
  for (const next of graph.get(way.at(-1) ?? '') ?? []) {
    if (next === target) return [...way, next]
    if (seen.has(next)) continue
    seen.add(next)
    const found = wayTo(target, [...way, next], graph, seen)
    if (found !== null) return found
  }
  return null
}

describe('the folders of a package do not import each other in a circle', () => {
  test.each([
    ['core', ['pipeline', 'driver', 'storage', 'request', 'run', 'erase', 'engine', 'background', 'operate']],
    ['crash-kit', ['plan', 'oracle', 'finding', 'actors', 'process', 'faults', 'case', 'explore', 'races']],
  ])('%s', async (name, some) => {
    const graph = await importGraph(`packages/${name}/src`)
    expect([...graph.keys()]).toEqual(expect.arrayContaining(some))
    expect(cycleIn(graph)).toBeNull()
  })

  test('fastify-adapter, which has none', async () => {
    const graph = await importGraph('packages/fastify-adapter/src')
    expect([...graph.keys()]).toContain('plugin.ts')
    expect([...graph.keys()].filter(isFolder)).toEqual([])
  })
})

const graphOf = (...imports: readonly (readonly [string, readonly string[]])[]): Graph =>
  new Map(imports.map(([from, to]) => [from, new Set(to)]))

describe('a circle', () => {
  test('is found and named by its way, also over a file beside the folders', () => {
    const graph = graphOf(['index.ts', ['a']], ['a', ['b', 'd']], ['b', ['c']], ['c', ['d', 'a']], ['d', []])
    expect(cycleIn(graph)).toBe('a → b → c → a')
    expect(cycleIn(graphOf(['a', ['kit.ts']], ['kit.ts', ['limits.ts', 'a']]))).toBe('a → kit.ts → a')
  })

  test('is not two ways to one folder, and not two files beside the folders', () => {
    expect(cycleIn(graphOf(['a', ['x.ts']], ['x.ts', ['y.ts']], ['y.ts', ['x.ts']]))).toBeNull()
    expect(cycleIn(graphOf(['a', ['b', 'c']], ['b', ['d']], ['c', ['d']], ['d', ['limits.ts']]))).toBeNull()
  })
})
