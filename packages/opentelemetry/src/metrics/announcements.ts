import { subscribe } from '@pawl/core'
import type { Instruments } from './instruments.js'

/** Feeds what only channels report. They are of the whole process: each of its engines is counted, and each message once. */
export function listenToChannels(instruments: Instruments): () => void {
  const stops = [
    subscribe('pawl:replayed', ({ pipeline, from }) =>
      instruments.add('pawl.replays', 1, { 'pawl.pipeline': pipeline, 'pawl.replay.from': from }),
    ),
    subscribe('pawl:taken_over', ({ pipeline }) =>
      instruments.add('pawl.takeovers', 1, { 'pawl.pipeline': pipeline }),
    ),
    subscribe('pawl:phase_failed', ({ pipeline, phase, reason }) =>
      instruments.add('pawl.phase.failures', 1, { ...at(pipeline, phase), 'pawl.retry.reason': reason }),
    ),
    subscribe('pawl:phase_retried', ({ pipeline, phase }) =>
      instruments.add('pawl.transaction.retries', 1, at(pipeline, phase)),
    ),
    subscribe('pawl:commit_settled', ({ pipeline, phase, committed }) =>
      instruments.add('pawl.commits.unknown', 1, { ...at(pipeline, phase), 'pawl.committed': committed }),
    ),
    subscribe('pawl:outcome_unknown', ({ pipeline, phase }) =>
      instruments.add('pawl.calls.unknown', 1, at(pipeline, phase)),
    ),
    subscribe('pawl:fenced_off', ({ pipeline, phase }) =>
      instruments.add('pawl.fences.lost', 1, at(pipeline, phase)),
    ),
    subscribe('pawl:stuck', ({ pipeline, reason }) =>
      instruments.add('pawl.keys.marked_stuck', 1, {
        'pawl.pipeline': pipeline,
        'pawl.stuck.reason': reason,
      }),
    ),
    subscribe('pawl:breaker', ({ state }) =>
      instruments.add('pawl.breaker.changes', 1, { 'pawl.breaker.state': state }),
    ),
    subscribe('pawl:warning', () => instruments.add('pawl.warnings', 1, {})),
    subscribe('pawl:round', ({ service, counts }) => addRound(instruments, service, counts)),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}

/** Adds what a round did. */
export function addRound(
  instruments: Instruments,
  service: string,
  counts: Readonly<Record<string, number>>,
): void {
  for (const [name, count] of Object.entries(counts)) {
    if (service !== 'relay')
      instruments.add('pawl.round.items', count, { 'pawl.service': service, 'pawl.round.count': name })
    // What was claimed is what became of it, once it ends.
    else if (name !== 'claimed') instruments.add('pawl.job.deliveries', count, { 'pawl.job.result': name })
  }
}

const at = (pipeline: string, phase: string) => ({ 'pawl.pipeline': pipeline, 'pawl.phase': phase })
