const SEGMENTER = new Intl.Segmenter()
const PRINTABLE_ASCII = /^[ -~]*$/

/** Emoji, and the scripts whose characters take two columns of a terminal. */
const WIDE =
  /\p{Emoji_Presentation}|\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]/u

/** Returns how many columns of a terminal a text takes, as far as that can be known. */
export function textWidth(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length
  let width = 0
  for (const { segment } of SEGMENTER.segment(text)) width += segmentWidth(segment)
  return width
}

/**
 * Returns the text in lines of at most `width` columns (two or more). It is broken at spaces, and inside a word only if the word is
 * longer than a line. All lines are indented like the first one, unless that would leave too little space.
 */
export function wrapText(text: string, width: number): string[] {
  const rest = text.replace(/^ +/, '')
  const indent = text.length - rest.length
  if (indent === 0 || indent >= width / 2) return wrapWords(rest, width)
  return wrapWords(rest, width - indent).map((line) => ' '.repeat(indent) + line)
}

function wrapWords(text: string, width: number): string[] {
  const [first = '', ...words] = text.split(' ')
  const lines = piecesOf(first, width)
  for (const word of words) {
    const longer = `${lines.at(-1) ?? ''} ${word}`
    if (textWidth(longer) <= width) lines[lines.length - 1] = longer
    else lines.push(...piecesOf(word, width))
  }
  return lines
}

function piecesOf(word: string, width: number): string[] {
  if (textWidth(word) <= width) return [word]
  const pieces: string[] = []
  let piece = ''
  let used = 0
  for (const { segment } of SEGMENTER.segment(word)) {
    const more = segmentWidth(segment)
    if (used + more > width && piece !== '') {
      pieces.push(piece)
      piece = ''
      used = 0
    }
    piece += segment
    used += more
  }
  return [...pieces, piece]
}

function segmentWidth(segment: string): number {
  return WIDE.test(segment) ? 2 : 1
}
