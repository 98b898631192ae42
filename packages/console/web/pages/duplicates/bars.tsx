import { formatCount } from '../../format/count.js'
import { type Counts, sumOf } from './per-minute.js'

interface BarsProps {
  readonly minutes: readonly Counts[]
  /** What is drawn, for screen readers. */
  readonly label: string
}

/** On a grid that the page stretches: bars have a unit of width each, and a hundred of height. */
const HEIGHT = 100
const GAP = 0.24

/** A bar for each minute: replayed below, then in flight, mismatched on top. */
export function Bars({ minutes, label }: BarsProps) {
  const most = Math.max(1, ...minutes.map(sumOf))
  return (
    <figure class="bars">
      <figcaption>
        <span>most: {formatCount(most)}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${minutes.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        {minutes.map((counts, index) => (
          <Bar key={index} at={index} counts={counts} perUnit={HEIGHT / most} />
        ))}
      </svg>
    </figure>
  )
}

interface BarProps {
  readonly at: number
  readonly counts: Counts
  readonly perUnit: number
}

function Bar({ at, counts: { replayed, inFlight, mismatched }, perUnit }: BarProps) {
  const parts = [
    { kind: 'replayed', count: replayed, below: 0 },
    { kind: 'in-flight', count: inFlight, below: replayed },
    { kind: 'mismatched', count: mismatched, below: replayed + inFlight },
  ]
  return (
    <>
      {parts
        .filter(({ count }) => count > 0)
        .map(({ kind, count, below }) => (
          <rect
            key={kind}
            class={`bar-${kind}`}
            x={at + GAP / 2}
            width={1 - GAP}
            y={HEIGHT - (below + count) * perUnit}
            height={count * perUnit}
          />
        ))}
    </>
  )
}
