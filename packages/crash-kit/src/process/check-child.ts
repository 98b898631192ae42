import type { Theatre } from '../cast/scene.js'
import type { Discovery } from '../explore/discover.js'
import { Explorer } from '../explore/explorer.js'
import { Coverage } from '../finding/coverage.js'
import { childError } from './child-error.js'
import type { Children } from './children.js'

/**
 * Runs the request once in a child that nothing happens to. It has to pass what it passes here: a crash is planned at
 * positions that were seen here, and what a child leaves behind is recovered here.
 */
export async function checkChild(theatre: Theatre, children: Children, discovery: Discovery): Promise<void> {
  const explorer = new Explorer({ ...theatre, children }, discovery, [], new Coverage())
  const { recovery, history } = await explorer.run({
    plan: [],
    title: 'no fault at all, in a process of its own',
  })
  const outcome = history.told[0]?.outcome
  if (outcome?.type !== 'completed') {
    const { error } = (outcome ?? {}) as { error?: unknown }
    const why = error instanceof Error ? ` (${error.message})` : ''
    throw childError(
      children.options,
      `without any fault, its request was told ${outcome?.type ?? 'nothing'}${why}.`,
    )
  }
  const here = discovery.positions.map(({ text }) => text)
  const there = recovery.filter(({ attempt }) => attempt === 0).map(({ position }) => position.text)
  const steps = Array.from({ length: Math.max(here.length, there.length) }, (_, at) => at)
  const first = steps.find((at) => here[at] !== there[at])
  if (first === undefined) return
  throw childError(
    children.options,
    `its pipeline takes another way than crashKit's: step ${first + 1} is ${there[first] ?? 'missing'} there, ` +
      `and ${here[first] ?? 'missing'} here. Both have to run the same code.`,
  )
}
