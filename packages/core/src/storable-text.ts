/** Names, for an error, what in a text PostgreSQL's `text` cannot hold; null where there is no such thing. */
export function unstorableIn(text: string): 'a NUL character' | 'a lone surrogate' | null {
  if (text.includes('\0')) return 'a NUL character'
  return /\p{Surrogate}/u.test(text) ? 'a lone surrogate' : null
}

/** The text without such characters: a provider may send either of them, after the charge. */
export function storableText(text: string): string {
  return text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '')
}
