const SEGMENTER = new Intl.Segmenter()

/** Emoji, and the scripts whose characters take two columns of a terminal. */
const WIDE =
  /\p{Emoji_Presentation}|\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]/u

/** How many columns of a terminal a text takes, as far as that can be known. */
export function textWidth(text: string): number {
  let width = 0
  for (const { segment } of SEGMENTER.segment(text)) width += WIDE.test(segment) ? 2 : 1
  return width
}

/** The text, cut to this many columns with an ellipsis if it is longer. */
export function cutText(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  let kept = ''
  for (const { segment } of SEGMENTER.segment(text)) {
    if (textWidth(kept + segment) > width - 1) break
    kept += segment
  }
  return `${kept}…`
}

/** The same with the ellipsis in the middle: names that clients make up often differ only at the end. */
export function cutMiddle(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  const segments = Array.from(SEGMENTER.segment(text), ({ segment }) => segment)
  const tail = keptOf(segments.toReversed(), Math.floor((width - 1) / 2)).toReversed()
  const head = keptOf(segments, Math.ceil((width - 1) / 2))
  return `${head.join('')}…${tail.join('')}`
}

/** As many segments as fit, from the first on. */
function keptOf(segments: readonly string[], width: number): string[] {
  let used = 0
  const end = segments.findIndex((segment) => (used += textWidth(segment)) > width)
  return segments.slice(0, end)
}
