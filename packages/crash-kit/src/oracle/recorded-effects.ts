import { type Commit, type History, KIT, type PipelineShape, type Violation } from '../history.js'
import { textIn } from './key-state.js'
import { advancesIn, isSteered } from './key-writes.js'

/** I4: the effect of a call that was settled is recorded by the transaction that moves its key past the call. */
export function recordedEffects({ commits }: History, { foreign }: PipelineShape): Violation[] {
  const calls = new Set(foreign.map(({ phase }) => phase))
  return commits
    .filter((commit) => commit.actor !== KIT && !isSteered(commit))
    .flatMap((commit) =>
      advancesIn(commit).flatMap(({ before, after, actor }) => {
        const recorded = phasesRecordedIn(commit, after.id)
        const settled = after.trail
          .slice(before.trail.length)
          .filter(({ p, s, u }) => calls.has(p) && s !== true && u !== true)
        return settled
          .filter(({ p }) => !recorded.has(p))
          .map(({ p }): Violation => ({
            rule: 'I4',
            title: 'the effect of a call is recorded together with its recovery point',
            detail: `${actor} moved the key past '${p}' under fence ${after.fence}, and recorded no effect of its call.`,
          }))
      }),
    )
}

function phasesRecordedIn({ changes }: Commit, keyId: string): ReadonlySet<string> {
  const effects = changes.filter(
    ({ framework, table, op, after }) =>
      framework && table === 'effects' && op === 'INSERT' && after !== null && after['key_id'] === keyId,
  )
  return new Set(effects.map(({ after }) => (after === null ? '' : textIn(after, 'phase'))))
}
