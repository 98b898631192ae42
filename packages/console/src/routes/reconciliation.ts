import type { EffectView } from '@pawl/core'
import type { FastifyRequest } from 'fastify'
import type { Reconciliation } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import {
  MAX_PAGE_ROWS,
  MAX_RECONCILED_EFFECTS,
  MAX_RECONCILED_ROWS,
  MAX_RECONCILED_WINDOW_MS,
} from '../limits.js'
import { invalid, moment, readQuery } from '../parse-query.js'
import { listed } from '../views/shown-key.js'

const DAY_MS = 86_400_000

/** What a window's effects come to, and what a provider's list has to be compared with. */
export async function reconciliation(
  console: ConsoleContext,
  request: FastifyRequest,
): Promise<Reconciliation> {
  const query = readQuery(request.query, ['from', 'to'])
  const to = moment(query, 'to') ?? (await console.now())
  const from = moment(query, 'from') ?? new Date(to.getTime() - DAY_MS)
  if (from > to) throw invalid('from is after to.')
  if (to.getTime() - from.getTime() > MAX_RECONCILED_WINDOW_MS)
    throw invalid(
      `The window is longer than ${MAX_RECONCILED_WINDOW_MS / DAY_MS} days. For longer ones, use pawl reconcile.`,
    )
  const { groups, withoutReference, isPartial } = await sumUp(console.reader.effects({ from, to }))
  const { keys: stuck } = await console.reader.page({ status: 'stuck', limit: MAX_PAGE_ROWS })
  const inDoubt = stuck
    .filter(({ call, createdAt }) => call?.known === 'may_have_been_made' && createdAt < to)
    .slice(0, MAX_RECONCILED_ROWS)
  const unfinished = await console.reader.countUnfinished(to)
  return { from, to, groups, isPartial, withoutReference, inDoubt: inDoubt.map(listed), unfinished }
}

type Group = Reconciliation['groups'][number]

async function sumUp(
  effects: AsyncIterable<EffectView>,
): Promise<Pick<Reconciliation, 'groups' | 'withoutReference' | 'isPartial'>> {
  const groups = new Map<string, Group>()
  const withoutReference: EffectView[] = []
  let read = 0
  for await (const effect of effects) {
    if (read === MAX_RECONCILED_EFFECTS) return { groups: sorted(groups), withoutReference, isPartial: true }
    read++
    const { pipeline, phase, effectName } = effect
    const name = JSON.stringify([pipeline, phase, effectName])
    groups.set(name, added(groups.get(name), effect))
    if (effect.reference === null && withoutReference.length < MAX_RECONCILED_ROWS)
      withoutReference.push(effect)
  }
  return { groups: sorted(groups), withoutReference, isPartial: false }
}

/** They come oldest first. */
function added(group: Group | undefined, effect: EffectView): Group {
  const { pipeline, phase, effectName, at, reference, undoneAt } = effect
  return {
    pipeline,
    phase,
    effectName,
    effects: (group?.effects ?? 0) + 1,
    withoutReference: (group?.withoutReference ?? 0) + (reference === null ? 1 : 0),
    undone: (group?.undone ?? 0) + (undoneAt === null ? 0 : 1),
    firstAt: group?.firstAt ?? at,
    lastAt: at,
  }
}

function sorted(groups: ReadonlyMap<string, Group>): Group[] {
  return [...groups.values()].toSorted(
    (a, b) => a.pipeline.localeCompare(b.pipeline, 'en') || a.phase.localeCompare(b.phase, 'en'),
  )
}
