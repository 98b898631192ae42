import { useEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import { formatRate } from '../format/count.js'
import { useTheme } from '../theme/theme.js'

/** Moments in seconds since 1970, and a value at each. */
export interface Series {
  readonly at: readonly number[]
  readonly values: readonly (number | null)[]
}

interface TimeSeriesProps {
  readonly series: Series
  /** What is drawn, with its unit, for screen readers. */
  readonly label: string
  readonly height?: number
}

/** A line over time. The last value stands beside it as text wherever it matters: the drawing is for the shape. */
export function TimeSeries({ series, label, height = 56 }: TimeSeriesProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const theme = useTheme()

  const latest = useRef(series)
  latest.current = series

  useEffect(() => {
    const element = place.current
    if (element === null) return
    const controller = new AbortController()
    draw(element, height, controller.signal, () => dataOf(latest.current)).then(
      (drawn) => (plot.current = drawn),
      // It asks the browser for its language when it is loaded, and fails where that is none. The figures are there without it.
      () => {},
    )
    return () => {
      controller.abort()
      plot.current = null
    }
    // The colors come from the style sheet when it is made.
  }, [theme, height])

  useEffect(() => plot.current?.setData(dataOf(series)), [series])

  const last = series.values.at(-1)
  const text = last === null || last === undefined ? label : `${label}: ${formatRate(last)} now`
  return (
    <div class="time-series" ref={place} role="img" aria-label={text} style={{ height: `${height}px` }} />
  )
}

async function draw(
  element: HTMLElement,
  height: number,
  signal: AbortSignal,
  read: () => uPlot.AlignedData,
): Promise<uPlot | null> {
  const { default: UPlot } = await import('uplot')
  if (signal.aborted) return null
  const drawn = new UPlot(optionsOf(element, height), read(), element)
  const observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }))
  observer.observe(element)
  signal.addEventListener('abort', () => {
    observer.disconnect()
    drawn.destroy()
  })
  return drawn
}

function dataOf({ at, values }: Series): uPlot.AlignedData {
  return [[...at], [...values]]
}

function optionsOf(element: HTMLElement, height: number): uPlot.Options {
  const style = getComputedStyle(element)
  return {
    width: element.clientWidth,
    height,
    padding: [4, 0, 4, 0],
    cursor: { show: false },
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: {
      x: { time: true },
      // It begins at nothing, or a small change would look like a large one.
      y: { range: (_plot, _least, most) => [0, Math.max(1, most) * 1.1] },
    },
    series: [
      {},
      {
        stroke: style.getPropertyValue('color'),
        fill: style.getPropertyValue('outline-color'),
        width: 1.5,
        points: { show: false },
      },
    ],
  }
}
