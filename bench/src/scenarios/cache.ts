import type { ContenderName } from '../contenders/registry.js'
import { runDuplicates } from './duplicates.js'
import { runReplay } from './replay.js'
import type { Scenario } from './scenario.js'

const CONTENDERS = [
  'pawl-fastify-cached',
  'pawl-fastify',
  'select-route',
] as const satisfies readonly ContenderName[]

/** What a cache in Redis is worth, beside a route that looks its answer up. */
export const cache: Scenario = {
  title: 'replays and duplicates with a cache in Redis',
  async run(stage) {
    const names = stage.among(CONTENDERS)
    return [
      ...(await runReplay(stage, {
        name: 'cached replay',
        title: 'Replay of finished keys, 32 clients, over HTTP, with and without a cache in Redis',
        names,
        baseline: 'select-route',
      })),
      ...(await runDuplicates(stage, {
        name: 'cached duplicates',
        title: 'over HTTP, with and without a cache in Redis',
        names,
        baseline: 'select-route',
        notes: ['select-route answers with 201 as ever: it knows no duplicates.'],
      })),
    ]
  },
}
