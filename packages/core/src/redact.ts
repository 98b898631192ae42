import { MAX_REDACTIONS, REDACTION_EDGE, REDACTION_READ_AHEAD } from './limits.js'
import { urlAuthorities } from './url-authorities.js'

/** Names under which secrets are passed on, in whatever notation: `api_key=`, `"apiKey":`, `X-Api-Key: `, `<apiKey>`. */
const SECRET_NAME =
  'pass(?:word|wd|phrase)?|pwd|secret|token|session[_-]?id|(?:amz|goog)-signature|\\bsig|api[_-]?key|' +
  '(?:secret|access|account|private|signing|encryption)[_-]?(?:access[_-]?)?key'
/** What may stand between a name and its value: `=`, `": "`, `\":\"`, ` => `, and `%22%3A` in a URL within a URL. */
const ASSIGNED = String.raw`(?:["'\\]|%2[27]){0,4}\s{0,4}(?:[=:]>?|%3[AD])\s{0,4}`
/** A quoted value, an escaped one as in JSON within JSON, or a word. The closing quote may be beyond the cut. */
const VALUE = String.raw`(?:\[secret\](?=[\s,;&"'<>\\)}\]]|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|\\{1,3}["'][^"'\\\n]*|[^\s&"'<>\\]+)`
const SPACES_AND_DASHES = String.raw`[\p{Zs}\p{Pd}]`

/** Where a word begins, also right after an escape such as `\n` or `%3D`, whose last character could belong to it. */
const beginning = ({ source, flags }: RegExp): RegExp =>
  new RegExp(
    String.raw`(?:\b|(?<=\\[bfnrtv]|\\u[\dA-Fa-f]{4}|\\x[\dA-Fa-f]{2}|%[\dA-Fa-f]{2}))${source}`,
    flags,
  )

/**
 * Card numbers, keys of providers, tokens, and anything named as a secret: none of them belongs in a row or a log. Each
 * expression is linear, whatever the text: no quantifier is nested in another in such a way that the two could split the
 * same text in many ways.
 */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [new RegExp(String.raw`(?<!\d)\d(?:${SPACES_AND_DASHES}?\d){12,}`, 'gu'), '[number]'],
  // Dots count only between the groups of a card number; otherwise two host addresses would be taken for one number.
  [/(?<!\d)\d{4}\.(?:\d{4}\.\d{4}\.\d{1,7}|\d{6}\.\d{4,5})(?!\d)/g, '[number]'],
  // A card's check code is never to be stored, says every network. In a form: `card[cvc]=123`.
  [
    /((?:cvc2?|cvv2?)(?:["'\\\]]|%5D){0,4}\s{0,4}(?:[=:>]|%3[AD])\s{0,4}["'\\]{0,4})\d{3,4}(?!\d)/gi,
    '$1[number]',
  ],
  [/-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\]*/g, '[key]'],
  [beginning(/(?:sk|pk|rk|whsec)_[A-Za-z0-9_]+/g), '[key]'],
  [beginning(/sk-[A-Za-z0-9_-]{16,}/g), '[key]'],
  [
    beginning(
      /(?:gh[opsur]|github_pat|npm|shp(?:at|ca|pa|ss)|glpat|hf|dop_v1|sq0(?:atp|csp))[_-][A-Za-z0-9_-]{16,}/g,
    ),
    '[key]',
  ],
  [beginning(/SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}/g), '[key]'],
  [beginning(/(?:SK|AC)[0-9a-f]{32}\b/g), '[key]'],
  [beginning(/key-[0-9a-f]{32}\b/g), '[key]'],
  [beginning(/ya29\.[A-Za-z0-9_-]{16,}/g), '[token]'],
  [beginning(/GOCSPX-[A-Za-z0-9_-]{16,}/g), '[key]'],
  [beginning(/(?:AKIA|ASIA)[A-Z0-9]{12,}/g), '[key]'],
  [beginning(/AIza[A-Za-z0-9_-]{30,}/g), '[key]'],
  [beginning(/xox[a-z]-[A-Za-z0-9-]{8,}/g), '[key]'],
  [beginning(/eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}/g), '[token]'],
  [beginning(/(Bearer|Basic)(?::?\s+|%20|\+)[A-Za-z0-9._~+/=-]+/gi), '$1 [token]'],
  [
    beginning(/(cookie["'\\]{0,4}\s{0,4}(?:[=:]|(?<=["']),)\s{0,4}(?:\[?["'\\]{1,4})?)[^\n"'\\]+/gi),
    '$1[secret]',
  ],
  // Together with its scheme, which may be any word.
  [
    new RegExp(
      String.raw`(authorization(?:${ASSIGNED}|["'],\s{0,4})["'\\]{0,4})(?:[a-z][\w-]{0,30}[ \t]{1,4})?[^\s"'<>\\]+`,
      'gi',
    ),
    '$1[secret]',
  ],
  [new RegExp(`((?:${SECRET_NAME})${ASSIGNED})${VALUE}`, 'gi'), '$1[secret]'],
  [
    new RegExp(String.raw`(<[\w:.-]{0,64}(?:${SECRET_NAME})(?:\s[^<>]{0,256})?>)[^<]+(?=</)`, 'gi'),
    '$1[secret]',
  ],
]

/**
 * The beginning of a text, without what looks like a secret: card numbers, keys of providers, tokens, values that are
 * named as secrets, credentials in URLs, and e-mail addresses. Whoever sends us an endless text must not keep the event loop busy, so no
 * more is read than may be kept. Half a secret at the cut would not be recognized, so what is close to the cut is left
 * out.
 *
 * `prepare`: what else is done to the text before it is searched for secrets.
 */
export function redact(
  text: string,
  maxLength: number,
  prepare: (text: string) => string = (same) => same,
): string {
  const readLength = maxLength * REDACTION_READ_AHEAD
  const read = prepare(text.slice(0, readLength))
  const redacted = redactedUntilNothingIsLeft(read)
  const isCut = text.length > readLength
  return redacted.slice(
    0,
    isCut ? Math.min(maxLength, Math.max(0, redacted.length - REDACTION_EDGE)) : maxLength,
  )
}

/** What is taken out may uncover something else, so that one pass is not always enough. Each takes time that grows with the text. */
function redactedUntilNothingIsLeft(text: string): string {
  let before = text
  for (let pass = 0; pass < MAX_REDACTIONS; pass++) {
    const after = SECRETS.reduce(
      (rest, [pattern, instead]) => rest.replace(pattern, instead),
      withoutAddresses(withoutCredentials(before)),
    )
    if (after === before) break
    before = after
  }
  return before
}

const AT = /@|%40/gi
const LOCAL_END = /[\p{L}\p{N}.!$*+^_{|}~-]$/u
const DOMAIN = /[\p{L}\p{N}.-]*/uy

/**
 * E-mail addresses. An expression for a whole address is quadratic: it begins anew at every letter. This looks for `@`, and from there to
 * both sides, where no character is looked at by two of them.
 */
function withoutAddresses(text: string): string {
  let from = 0
  let redacted = ''
  for (const { index, 0: at } of text.matchAll(AT)) {
    if (index < from) continue
    let start = index
    while (start > from && LOCAL_END.test(text.charAt(start - 1))) start--
    DOMAIN.lastIndex = index + at.length
    const domain = (DOMAIN.exec(text)?.[0] ?? '').replace(/[.-]{1,255}$/, '')
    // The last label is letters: `pg@8.11.3` is a package.
    if (start === index || !/^[^.].*\.\p{L}{2,63}$/u.test(domain)) continue
    redacted += `${text.slice(from, start)}[e-mail]`
    from = index + at.length + domain.length
  }
  return redacted + text.slice(from)
}

/** `user:` and a password, where a host would be followed by a port. Brackets belong to an IPv6 address. */
const HAS_PASSWORD = /^[^:[\]"'<>,;()]*:(?!\d*(?:[^\w@]|$))/
const WORD_END = /[\s"'<>`]/g

function withoutCredentials(text: string): string {
  let from = 0
  let redacted = ''
  // The end of the word that a URL is in, searched for once per word because one word may hold any number of URLs.
  let wordEnd = 0
  let lastAt = -1
  for (const { start, end } of urlAuthorities(text)) {
    if (start < from) continue
    if (start >= wordEnd) {
      WORD_END.lastIndex = end
      wordEnd = WORD_END.exec(text)?.index ?? text.length
      lastAt = start + text.slice(start, wordEnd).lastIndexOf('@')
    }
    const authority = text.slice(start, end)
    // A password that was not encoded may hold slashes, and further `@` signs besides the one that ends it.
    const at = HAS_PASSWORD.test(authority) ? lastAt : start + authority.lastIndexOf('@')
    if (at <= start) continue
    redacted += `${text.slice(from, start)}[credentials]`
    from = at
  }
  return redacted + text.slice(from)
}
