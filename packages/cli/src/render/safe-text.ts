/**
 * Whatever could move the cursor, change colours, reorder or hide text: control characters (C0, DEL, C1), marks of
 * direction and other characters without width, line separators, halves of surrogate pairs. Keys and scopes come from
 * clients, and operators look at them on terminals.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** The text with everything that is unsafe on a terminal written like `\u001b`. Always one line. */
export function safeText(text: string): string {
  return text.replaceAll(UNSAFE, escapeAsJson)
}

/** JSON that is safe on a terminal, too, and means the same: unsafe characters occur only inside strings. */
export function safeJson(value: unknown): string {
  // Line breaks belong to the layout: JSON has escaped those inside strings.
  return JSON.stringify(value, null, 2).replaceAll(UNSAFE, (found) =>
    found === '\n' ? found : escapeAsJson(found),
  )
}

/** One word for a shell that knows `$'…'`, such as bash and zsh: for commands that people copy. */
export function shellWord(text: string): string {
  if (/^[\w@%+=:,./][\w@%+=:,./-]*$/.test(text)) return text
  if (safeText(text) === text) return `'${text.replaceAll("'", String.raw`'\''`)}'`
  const quoted = text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)
  return `$'${quoted.replaceAll(UNSAFE, escapeAsShell)}'`
}

function escapeAsJson(found: string): string {
  const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}

/** Byte by byte: bash expands the number of a character, such as `\u202E`, only in a UTF-8 locale. */
function escapeAsShell(found: string): string {
  return Array.from(
    Buffer.from(found),
    (byte) => `\\x${byte.toString(16).toUpperCase().padStart(2, '0')}`,
  ).join('')
}
