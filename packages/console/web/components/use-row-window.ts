import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'

/** Which rows are drawn, and how high those above and below them would be. */
export interface RowWindow {
  readonly first: number
  readonly last: number
  readonly above: number
  readonly below: number
}

/** Fewer rows are drawn at once: the browser takes no notice of them. */
const MIN_ROWS = 120
/** Drawn above and below what is in sight, so that scrolling does not show a gap. */
const OVERSCAN_ROWS = 30
/** Until a row was measured. */
const GUESSED_HEIGHT_PX = 48

/** The rows in sight while the page scrolls. Rows have to have one height. */
export function useRowWindow(
  body: RefObject<HTMLElement | null>,
  count: number,
  isWindowed: boolean,
): RowWindow {
  const [seen, setSeen] = useState({ first: 0, last: MIN_ROWS, height: GUESSED_HEIGHT_PX })
  const isOn = isWindowed && count > MIN_ROWS
  useEffect(() => {
    if (!isOn) return
    let frame = 0
    const measure = () => {
      frame = 0
      const element = body.current
      if (element === null) return
      const row = element.querySelector('.row')
      const height = row === null ? GUESSED_HEIGHT_PX : row.getBoundingClientRect().height
      const top = -element.getBoundingClientRect().top
      // In steps, so that not every pixel draws again.
      const first = Math.max(0, Math.floor(top / height / 10) * 10 - OVERSCAN_ROWS)
      const last = Math.ceil((top + window.innerHeight) / height / 10) * 10 + OVERSCAN_ROWS
      setSeen((before) =>
        before.first === first && before.last === last && before.height === height
          ? before
          : { first, last, height },
      )
    }
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(measure)
    }
    measure()
    window.addEventListener('scroll', soon, { passive: true })
    window.addEventListener('resize', soon)
    return () => {
      cancelAnimationFrame(frame)
      window.removeEventListener('scroll', soon)
      window.removeEventListener('resize', soon)
    }
  }, [isOn, body, count])
  if (!isOn) return { first: 0, last: count, above: 0, below: 0 }
  const first = Math.min(seen.first, count)
  const last = Math.min(Math.max(seen.last, first), count)
  return { first, last, above: first * seen.height, below: (count - last) * seen.height }
}
