const WIDTH = 120
const HEIGHT = 24

/** The shape of a series, without axes: the number beside it says how much. */
export function Sparkline({ values }: { readonly values: readonly number[] }) {
  const most = Math.max(1, ...values)
  const step = WIDTH / Math.max(1, values.length - 1)
  const points = values.map((value, index) => {
    const y = HEIGHT - 1.5 - (value / most) * (HEIGHT - 3)
    return `${(index * step).toFixed(1)},${y.toFixed(1)}`
  })
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {points.length > 1 && values.some((value) => value > 0) && <polyline points={points.join(' ')} />}
    </svg>
  )
}
