import type { Environment } from '../actors/environment.js'
import type { Discovery } from './discover.js'
import { Explorer } from './explorer.js'
import { Coverage } from '../finding/coverage.js'
import { childError } from '../process/child-error.js'
import type { Children } from '../process/children.js'

/**
 * Runs the request once in a child that no fault strikes. It has to pass the same positions as here, because crashes are planned at
 * positions that were seen here, and what a child leaves behind is recovered here.
 */
export async function checkChild(
  environment: Environment,
  children: Children,
  discovery: Discovery,
): Promise<void> {
  const explorer = new Explorer(environment, discovery, [], new Coverage(), children)
  const { recovery, history } = await explorer.run({
    plan: [],
    title: 'no fault at all, in a process of its own',
  })
  const outcome = history.outcomes[0]?.outcome
  if (outcome?.type !== 'completed') {
    const { error } = (outcome ?? {}) as { error?: unknown }
    const why = error instanceof Error ? ` (${error.message})` : ''
    throw childError(
      children.options,
      `without any fault, its request got ${outcome?.type ?? 'nothing'}${why}.`,
    )
  }
  const here = discovery.positions.map(({ text }) => text)
  const there = recovery.filter(({ attempt }) => attempt === 0).map(({ position }) => position.text)
  const steps = Array.from({ length: Math.max(here.length, there.length) }, (_, at) => at)
  const first = steps.find((at) => here[at] !== there[at])
  if (first === undefined) return
  throw childError(
    children.options,
    `its pipeline takes another path than crashKit's: step ${first + 1} is ${there[first] ?? 'missing'} there, ` +
      `and ${here[first] ?? 'missing'} here. Both have to run the same code.`,
  )
}
