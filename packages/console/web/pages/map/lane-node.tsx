import type { RecordedPhase } from '@pawl/core'
import type { AsJson } from '../../../src/api.js'
import { ConditionMark } from '../../components/badge.js'
import { Icon } from '../../components/icon.js'
import { Age } from '../../components/moment.js'
import { PointName } from '../../components/point-name.js'
import { CONDITION_TEXT } from '../../format/condition.js'
import { formatCompact, formatCount, formatRate } from '../../format/count.js'
import { formatDuration } from '../../format/duration.js'
import { GUARANTEE_TEXT } from '../../format/guarantee.js'
import { visibleText } from '../../format/visible-text.js'
import { Link } from '../../router/link.js'
import {
  countOf,
  type PipelineNow,
  type PointNow,
  STANDING,
  standingAt,
  type Standing,
  statusOf,
} from './standing.js'

type PhaseNow = AsJson<RecordedPhase>

interface LaneNodeProps {
  readonly pipeline: PipelineNow
  readonly point: PointNow
  /** The phase that reaches it; null where there is none, or it is not known. */
  readonly phase: PhaseNow | null
  /** What comes after it; null at the end. */
  readonly next: { readonly point: PointNow; readonly phase: PhaseNow | null } | null
  readonly most: number
}

/** A recovery point with the keys that stand there, and the phase that leads on from it. */
export function LaneNode({ pipeline, point, phase, next, most }: LaneNodeProps) {
  const { name, version } = pipeline
  const isEnd = point.point === 'finished'
  const total = standingAt(point)
  const kind = next?.phase?.kind === 'foreign' ? 'edge-foreign' : ''
  const isUnknown = pipeline.recorded !== null && phase === null && point.point !== 'started'
  const query = { pipeline: name, version, point: point.point }
  return (
    <li class={`node ${isEnd ? 'node-end' : ''} ${kind} ${next === null ? 'node-last' : ''}`}>
      <p class="edge-text">{next !== null && <EdgeText {...next} />}</p>
      <span class="node-line" aria-hidden="true">
        <span class={`node-dot ${markOf(point)}`} />
      </span>
      <h3 class="node-name">
        <PointName name={point.point} />
      </h3>
      <div class="node-inside">
        {isUnknown && <p class="node-note">not in its definition</p>}
        {isEnd ? (
          <p class="node-total">
            <span class={point.reachedPerMinute === 0 ? 'is-none' : ''}>
              {formatRate(point.reachedPerMinute)}
            </span>
            <span class="node-age">per minute</span>
          </p>
        ) : (
          <>
            <p class="node-total">
              {total === 0 ? (
                <span class="is-none">0</span>
              ) : (
                <Link
                  to="requests"
                  query={query}
                  aria-label={`${formatCount(total)} requests of ${visibleText(name)} at ${visibleText(point.point)}`}
                >
                  {formatCount(total)}
                </Link>
              )}
              {point.oldestCreatedAt !== null && (
                <span class="node-age">
                  oldest <Age since={point.oldestCreatedAt} isShort />
                </span>
              )}
            </p>
            <Bar point={point} most={most} />
            <div class="node-foot">
              <ul class="node-conditions">
                {STANDING.map((condition) => (
                  <ConditionCount key={condition} condition={condition} point={point} query={query} />
                ))}
              </ul>
              {point.reachedPerMinute > 0 && (
                <p class="node-rate">{formatRate(point.reachedPerMinute)}/min</p>
              )}
            </div>
          </>
        )}
      </div>
    </li>
  )
}

/** Of what stands here, the condition that most needs somebody. */
function markOf(point: PointNow): string {
  const worst = STANDING.findLast((condition) => countOf(point, condition) > 0)
  return worst === undefined ? '' : `mark-${worst}`
}

/** What the phase between two points is, and how long it takes. */
function EdgeText({ point, phase }: NonNullable<LaneNodeProps['next']>) {
  const isForeign = phase?.kind === 'foreign'
  return (
    <>
      {isForeign && phase.guarantee !== null && (
        <span class="edge-call" title={`A call to a provider. ${GUARANTEE_TEXT[phase.guarantee].meaning}`}>
          <Icon name="call" />
          {GUARANTEE_TEXT[phase.guarantee].word}
        </span>
      )}
      {phase?.conditional === true && (
        <span class="edge-optional" title="It has a condition, and is skipped where that does not hold.">
          may be skipped
        </span>
      )}
      {point.medianMs !== null && (
        <span class="edge-median" title="How long it took in the middle, from the point before to the next">
          {formatDuration(point.medianMs)}
        </span>
      )}
    </>
  )
}

/** How many stand here, compared with where most stand. Drawn by the square root: few are to be seen beside many. */
function Bar({ point, most }: { readonly point: PointNow; readonly most: number }) {
  const total = standingAt(point)
  const width = Math.sqrt(total / most) * 100
  return (
    <div class="node-bar" aria-hidden="true">
      <div
        class={`node-bar-inside ${total === 0 ? 'is-empty' : ''}`}
        style={{ width: `${width.toFixed(1)}%` }}
      >
        {STANDING.map((condition) => (
          <span
            key={condition}
            class={`node-bar-part mark-${condition}`}
            style={{ flexGrow: countOf(point, condition) }}
          />
        ))}
      </div>
    </div>
  )
}

interface ConditionCountProps {
  readonly condition: Standing
  readonly point: PointNow
  readonly query: Readonly<Record<string, string | number>>
}

function ConditionCount({ condition, point, query }: ConditionCountProps) {
  const count = countOf(point, condition)
  if (count === 0) return null
  const { word, meaning } = CONDITION_TEXT[condition]
  const text = `${formatCount(count)} ${word}`
  return (
    <li class={`node-condition badge-${condition}`}>
      <Link
        to="requests"
        query={{ ...query, status: statusOf(condition) }}
        title={`${text}. ${meaning}`}
        aria-label={`${text} at ${visibleText(point.point)}`}
      >
        <ConditionMark condition={condition} />
        {formatCompact(count)}
      </Link>
    </li>
  )
}
