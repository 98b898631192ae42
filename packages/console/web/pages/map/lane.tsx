import { useId } from 'preact/hooks'
import { ForeignText } from '../../components/foreign-text.js'
import { Sparkline } from '../../components/sparkline.js'
import { formatRate } from '../../format/count.js'
import { LaneNode } from './lane-node.js'
import type { PipelineNow } from './standing.js'

interface LaneProps {
  readonly pipeline: PipelineNow
  /** The most keys that stand at any point of the map: bars are compared with it. */
  readonly most: number
  /** Finished per minute while this page was open; null before the first. */
  readonly finished: readonly number[] | null
}

/** One version of a pipeline as its state machine. */
export function Lane({ pipeline, most, finished }: LaneProps) {
  const { name, version, recorded, points, finishedPerMinute } = pipeline
  const titleId = useId()
  const phases = new Map(recorded?.phases.map((phase) => [phase.name, phase]))
  return (
    <section class="lane" aria-labelledby={titleId}>
      <header class="lane-head">
        <h2 id={titleId}>
          <ForeignText text={name} />
          <span class="lane-version"> version {version}</span>
        </h2>
        {recorded?.kind === 'atomic' && (
          <p class="lane-note">atomic handler: only its client can run it again</p>
        )}
        {recorded === null && (
          <p class="lane-note">no engine has recorded its definition: these are the points that rows have</p>
        )}
        <p class="lane-rate">
          {finished !== null && <Sparkline values={finished} />}
          <span class="lane-number">{formatRate(finishedPerMinute)}</span> finished per minute
        </p>
      </header>
      <ol class={`track ${recorded === null ? 'track-unknown' : ''}`}>
        {points.map((point, index) => {
          const next = points[index + 1]
          return (
            <LaneNode
              key={point.point}
              pipeline={pipeline}
              point={point}
              phase={phases.get(point.point) ?? null}
              next={next === undefined ? null : { point: next, phase: phases.get(next.point) ?? null }}
              most={most}
            />
          )
        })}
      </ol>
    </section>
  )
}

/** Stands for a lane that is not there yet, at its height. */
export function SkeletonLane() {
  return (
    <section class="lane lane-skeleton" aria-hidden="true">
      <span class="skeleton" />
      <div class="track">
        {[0, 1, 2, 3].map((index) => (
          <span key={index} class="skeleton" />
        ))}
      </div>
    </section>
  )
}
