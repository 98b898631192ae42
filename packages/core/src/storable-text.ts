/** What of a text PostgreSQL's `text` cannot hold, for an error; null where there is nothing of the kind. */
export function unstorableIn(text: string): 'a NUL character' | 'a lone surrogate' | null {
  if (text.includes('\0')) return 'a NUL character'
  return /\p{Surrogate}/u.test(text) ? 'a lone surrogate' : null
}

/** The text without that: a provider may send both, after the charge. */
export function storableText(text: string): string {
  return text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '')
}
