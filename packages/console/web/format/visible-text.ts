/** A part of a text: as it is, or a character that would not be seen, or would change how others are. */
export interface TextPart {
  readonly text: string
  readonly isEscape: boolean
}

/** Control characters, what changes the direction of text, what has no width, halves of a character, and spaces that only look like one. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu

/** Splits a text that others chose, so that what cannot be seen in it is written out. */
export function visibleParts(text: string): TextPart[] {
  const parts: TextPart[] = []
  let end = 0
  for (const { 0: found, index } of text.matchAll(UNSEEN)) {
    if (index > end) parts.push({ text: text.slice(end, index), isEscape: false })
    parts.push({ text: escapeOf(found), isEscape: true })
    end = index + found.length
  }
  if (end < text.length) parts.push({ text: text.slice(end), isEscape: false })
  return parts
}

/** The same as one text, for titles and labels. */
export function visibleText(text: string): string {
  return visibleParts(text)
    .map((part) => part.text)
    .join('')
}

/** `\u0007`, `\u{e0041}`. */
function escapeOf(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16)
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`
}
