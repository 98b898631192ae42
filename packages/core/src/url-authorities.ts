/** Where the authority of a URL begins and ends in a text: `user:password@host:port`. */
export interface Span {
  readonly start: number
  readonly end: number
}

const SCHEME_END = '://'
const AUTHORITY_END = /[\s/]/g

/**
 * The authorities of all URLs in a text. They do not overlap, and each search begins where the last one ended: whatever
 * the text is, every character is looked at once or twice. A regular expression for a whole URL easily becomes quadratic.
 */
export function* urlAuthorities(text: string): Generator<Span> {
  let found = text.indexOf(SCHEME_END)
  while (found !== -1) {
    const start = found + SCHEME_END.length
    AUTHORITY_END.lastIndex = start
    const end = AUTHORITY_END.exec(text)?.index ?? text.length
    yield { start, end }
    found = text.indexOf(SCHEME_END, end)
  }
}
