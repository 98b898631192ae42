import type { Steered } from '../steer-keys.js'
import type { Paint } from './paint.js'
import { table } from './table.js'

const RESULTS = {
  done: 'done',
  would_be_done: 'would be done',
  refused: 'left alone',
  not_found: 'gone',
} as const satisfies Record<Steered['result'], string>

/** What became of each of several keys. Their names are shown whole: somebody will look them up. */
export function renderSteered(steered: readonly Steered[], paint: Paint): readonly string[] {
  return table(
    [
      { title: 'SCOPE' },
      { title: 'KEY' },
      { title: 'PIPELINE' },
      { title: 'POINT' },
      { title: 'STUCK' },
      { title: 'RESULT' },
      { title: '' },
    ],
    steered.map(({ key, result, detail }) => [
      key.scope,
      key.key,
      `${key.pipeline}@${key.version}`,
      key.point,
      key.stuckReason ?? '—',
      result === 'done' || result === 'would_be_done'
        ? RESULTS[result]
        : { text: RESULTS[result], style: 'yellow' },
      detail ?? '',
    ]),
    paint,
  )
}
