const SEGMENTER = new Intl.Segmenter()

/** Emoji, and the scripts whose characters take two columns of a terminal. */
const WIDE =
  /\p{Emoji_Presentation}|\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]/u

/** Code units that are split into characters at a time: `Intl.Segmenter` takes time that grows with the square of the text. */
const CHUNK_LENGTH = 256

/** The characters of a text, as people count them. One of more than a chunk counts as several. */
function* charactersOf(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const found = Array.from(SEGMENTER.segment(text.slice(at, at + CHUNK_LENGTH)), ({ segment }) => segment)
    // The last one may go on in the next chunk.
    if (at + CHUNK_LENGTH < text.length && found.length > 1) found.pop()
    yield* found
    for (const { length } of found) at += length
  }
}

const widthOf = (character: string): number => (WIDE.test(character) ? 2 : 1)

/** How many columns of a terminal a text takes, as far as that can be known. */
export function textWidth(text: string): number {
  let width = 0
  for (const character of charactersOf(text)) width += widthOf(character)
  return width
}

/** The text, cut to this many columns with an ellipsis if it is longer. */
export function cutText(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  return `${keptOf(charactersOf(text), width - 1).join('')}…`
}

/** The same with the ellipsis in the middle: names that clients make up often differ only at the end. */
export function cutMiddle(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  const characters = [...charactersOf(text)]
  const tail = keptOf(characters.toReversed(), Math.floor((width - 1) / 2)).toReversed()
  const head = keptOf(characters, Math.ceil((width - 1) / 2))
  return `${head.join('')}…${tail.join('')}`
}

/** As many characters as fit, from the first on. */
function keptOf(characters: Iterable<string>, width: number): string[] {
  const kept: string[] = []
  let used = 0
  for (const character of characters) {
    used += widthOf(character)
    if (used > width) break
    kept.push(character)
  }
  return kept
}
