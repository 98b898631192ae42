/**
 * Everything that could move the cursor, change colours, reorder or hide text: control characters, direction marks and other
 * zero-width characters, line separators, halves of surrogate pairs. Keys, errors and rows may contain any of them.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Returns the text on one line. What is unsafe on a terminal is written as `\u001b`, and a very long text is cut. */
export function safeText(text: string, maxLength: number): string {
  return escapeUnsafe(cutText(text, maxLength))
}

/** Does the same for a text of several lines. */
export function safeLines(text: string, maxLength: number): string[] {
  return cutText(text, maxLength).split(/\r?\n/).map(escapeUnsafe)
}

function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  // Never between the halves of a surrogate pair.
  const kept = text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, '')
  return `${kept}… (${text.length} characters)`
}

function escapeUnsafe(text: string): string {
  return text.replaceAll(UNSAFE, (found) => {
    const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}
