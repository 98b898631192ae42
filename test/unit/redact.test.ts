import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { REDACTION_READ_AHEAD } from '../../packages/core/src/limits.js'
import { redact } from '../../packages/core/src/redact.js'

const MAX_LENGTH = 2_000
const redacted = (text: string) => redact(text, MAX_LENGTH)

const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.s-1_g'

test.each([
  ['card 4242424242424242.', 'card [number].'],
  ['card 4242\u00A04242\u00A04242\u00A04242', 'card [number]'],
  ['card 4242\u202F4242\u20114242\u20134242', 'card [number]'],
  ['card 4242.4242.4242.4242', 'card [number]'],
  ['card 3782.822463.10005', 'card [number]'],
  ['key sk_live_abc', 'key [key]'],
  ['key sk-proj-abcdefghijklmnop', 'key [key]'],
  ['key ghp_abcdefghijklmnopqrstuvwxyz0123456789', 'key [key]'],
  ['key github_pat_11ABCDEFG0abcdefghijkl', 'key [key]'],
  ['key AKIAIOSFODNN7EXAMPLE', 'key [key]'],
  ['key AIzaSyA-abcdefghijklmnopqrstuvwxyz01234', 'key [key]'],
  ['key xoxb-123456-abcdef', 'key [key]'],
  ['-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END', '[key]-----END'],
  [`jwt ${JWT} refused`, 'jwt [token] refused'],
  [`Bearer ${JWT}`, 'Bearer [token]'],
  ['Basic dTpw is wrong', 'Basic [token] is wrong'],
  ['Authorization: Token abcdef', 'Authorization: [secret]'],
  ['{"authorization":"Bearer abc.def"}', '{"authorization":"[secret]"}'],
  ['/v1?api_key=abc&access_token=def&page=2', '/v1?api_key=[secret]&access_token=[secret]&page=2'],
  ['x-api-key: abc', 'x-api-key: [secret]'],
  ['password=hunter2 host=db', 'password=[secret] host=db'],
  ['{"password":"hunter2","a":1}', '{"password":[secret],"a":1}'],
  ['{"password":"hun\\"ter2","a":1}', '{"password":[secret],"a":1}'],
  ['{\\"apiKey\\": \\"abc\\", \\"a\\": 1}', '{\\"apiKey\\": [secret]\\", \\"a\\": 1}'],
  ["{ clientSecret: 'a b', a: 1 }", '{ clientSecret: [secret], a: 1 }'],
  ['aws_secret_access_key = wJalr/K7', 'aws_secret_access_key = [secret]'],
  ['postgres://u:p@host/db', 'postgres://[credentials]@host/db'],
  ['postgres://u:p@ss/word@host/db', 'postgres://[credentials]@host/db'],
  ['postgres://u:1@s/word@host/db', 'postgres://[credentials]@host/db'],
  ['postgres://u:pass/word@host/db', 'postgres://[credentials]@host/db'],
  ['"https://u:p@a","https://u:p@b"', '"https://[credentials]@b"'],
  ['https://u:p@a https://u:p@b', 'https://[credentials]@a https://[credentials]@b'],
  ['git+ssh://me@host/a@v1', 'git+ssh://[credentials]@host/a@v1'],
  ['to ann.b+c@mail.example.com, and', 'to [e-mail], and'],
  ['?to=ann%40example.com&x', '?to=[e-mail]&x'],
  ['<ünal@bücher.example>', '<[e-mail]>'],
  ['key SG.abcdefghijklmnop.abcdefghijklmnop', 'key [key]'],
  ['key shpss_abcdefghijklmnop', 'key [key]'],
  ['-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc=', '[key]'],
  ['card[number]=4242424242424242&card[cvc]=123&x=1', 'card[number]=[number]&card[cvc]=[number]&x=1'],
  ['card%5Bcvc%5D=1234', 'card%5Bcvc%5D=[number]'],
  ['{"cvv": "123"}', '{"cvv": "[number]"}'],
  ['Cookie: session=abcdef; theme=dark\nHost: a', 'Cookie: [secret]\nHost: a'],
  ['{"set-cookie":["sid=abc; Path=/"]}', '{"set-cookie":["[secret]"]}'],
  ['{"cookie":"sid=abc"}', '{"cookie":"[secret]"}'],
  ['sessionId=abc&session_id=def', 'sessionId=[secret]&session_id=[secret]'],
  ['AccountKey=abcd==;EndpointSuffix=x', 'AccountKey=[secret]'],
  ['?X-Amz-Signature=abcdef&x=1', '?X-Amz-Signature=[secret]&x=1'],
  // As in JSON, and as `inspect` shows a request's headers.
  [
    String.raw`'GET / HTTP/1.1\r\nCookie: sid=abc; a=b\r\nHost: a'`,
    String.raw`'GET / HTTP/1.1\r\nCookie: [secret]\r\nHost: a'`,
  ],
  [String.raw`the key:\nsk_live_abc`, String.raw`the key:\n[key]`],
  [String.raw`the token:\n${JWT}\n`, String.raw`the token:\n[token]\n`],
  [String.raw`a\u003dAKIAIOSFODNN7EXAMPLE`, String.raw`a\u003d[key]`],
  // As `inspect` shows the `rawHeaders` of a message.
  [
    "[ 'Cookie', 'sid=abc; a=b', 'Authorization', 'Custom abc', 'Host', 'a' ]",
    "[ 'Cookie', '[secret]', 'Authorization', '[secret]', 'Host', 'a' ]",
  ],
  // As in a URL within a URL.
  [`?next=%2Fcb%3Fjwt%3D${JWT}%26x%3D1`, '?next=%2Fcb%3Fjwt%3D[token]%26x%3D1'],
  ['?next=%3Fkey%3Dsk_live_abc', '?next=%3Fkey%3D[key]'],
  ['?next=%3Fpassword%3Dhunter2&x=1', '?next=%3Fpassword%3D[secret]&x=1'],
  ['?q=%7B%22apiKey%22%3A%22abc%22%7D&x=1', '?q=%7B%22apiKey%22%3A[secret]&x=1'],
  ['?next=%3Fcvc%3D123%26x%3D1', '?next=%3Fcvc%3D[number]%26x%3D1'],
  ['header=Bearer%20abc.def&x=1', 'header=Bearer [token]&x=1'],
  ["{ auth: { user: 'u', pass: 'hunter2' } }", "{ auth: { user: 'u', pass: [secret] } }"],
  ['DB_PASS=hunter2 DB_HOST=db', 'DB_PASS=[secret] DB_HOST=db'],
  [
    'https://a.blob.core.windows.net/b?sv=1&sig=abc%3D&se=2',
    'https://a.blob.core.windows.net/b?sv=1&sig=[secret]&se=2',
  ],
  ['<apiKey>abc</apiKey>', '<apiKey>[secret]</apiKey>'],
  [
    '<wsse:Password Type="Text">hunter2</wsse:Password>',
    '<wsse:Password Type="Text">[secret]</wsse:Password>',
  ],
])('a secret is taken out of %s', (text, expected) => expect(redacted(text)).toBe(expected))

test.each([
  'Unexpected token < in JSON at position 4',
  "Unexpected token ':' in JSON",
  'password authentication failed for user "u"',
  'connect ECONNREFUSED 192.168.100.200 5432',
  'https://db:1/x@y, https://db:443, http://[::1]:80/@x away',
  'at file:///app/node_modules/.pnpm/@pawl+core@1.0.0/index.js:12:3',
  '2026-11-16 08:10:49.123+00',
  'a risk-free try of task_1',
  'Unexpected token > in JSON at position 4',
  'send Authorization with a <token> of yours',
  'design: 5, passed: 3',
])('%s contains no secret', (text) => expect(redacted(text)).toBe(text))

const LONG = 1_000_000

/** The lengths of the texts that a method of strings was called on. */
const lengthsOf = (spy: { readonly mock: { readonly contexts: readonly unknown[] } }) =>
  spy.mock.contexts.map((text) => String(text).length)

test.each([
  '://',
  'a://b:c',
  'a://b:c@',
  '<a href="https://cdn.example.com/x.js">',
  '1-',
  'Basic\t\t',
  'token:"',
  'authorization: a ',
  'eyJaaaaaaaa.',
  '-----BEGIN PRIVATE KEY-----',
])('of a megabyte of %s, only a few times as much is searched as is kept', (part) => {
  const text = part.repeat(Math.ceil(LONG / part.length))
  const replaced = vi.spyOn(String.prototype, 'replace')
  const searchedBack = vi.spyOn(String.prototype, 'lastIndexOf')
  const kept = redacted(text)
  const lengths = lengthsOf(replaced)
  const searched = lengthsOf(searchedBack).reduce((sum, length) => sum + length, 0)
  vi.restoreAllMocks()
  expect(kept.length).toBeLessThanOrEqual(MAX_LENGTH)
  expect(lengths.length).toBeGreaterThan(5)
  // The replacement of a secret may be longer than the secret.
  const readLength = MAX_LENGTH * REDACTION_READ_AHEAD
  expect(Math.max(...lengths)).toBeLessThanOrEqual(readLength * 4)
  // The text is searched once per word and once per authority, so each character at most twice, whatever the text is.
  expect(searched).toBeLessThanOrEqual(readLength * 2)
})

test('half a secret at the end of the searched text is not kept', () => {
  const readLength = MAX_LENGTH * REDACTION_READ_AHEAD
  for (const secret of ['4242 4242 4242 4242', 'postgres://user:hunter2@host', 'sk-proj-abcdefghijklmnop']) {
    for (let inside = 1; inside <= secret.length; inside++) {
      // So much is removed before it that the end of the searched text moves into what may be kept.
      const before = `password=${'x'.repeat(readLength - inside - 'password= '.length)} `
      const kept = redacted(`${before}${secret} and more`)
      expect(kept).toBe('')
    }
  }
})

const SECRETS = [
  '4242 4242 4242 4242',
  'sk_live_abcdef',
  'ghp_abcdefghijklmnopqrstuvwxyz0123456789',
  'AKIAIOSFODNN7EXAMPLE',
  JWT,
  'password=hunter2',
  'https://u:hunter2@host/x',
  'ann.b@mail.example.com',
]
const HIDDEN = /4242 4242|sk_live|ghp_|AKIA|eyJhbG|hunter2|ann\.b@/

test('no known secret survives among any words, and redacting again changes nothing', () => {
  const word = fc.oneof(
    fc.constantFrom(...SECRETS),
    fc.string({ maxLength: 12 }),
    fc.constantFrom('@', '://', '"', '[secret]', '='),
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 20 }), (words) => {
      const once = redacted(words.join(' '))
      expect(once).not.toMatch(HIDDEN)
      expect(redacted(once)).toBe(once)
    }),
  )
})

// The time of the processor, not of the clock: other processes may run. A square would be 64 times as much.
test.each([
  'a',
  'a@',
  '@',
  'a@b.',
  'a.b@',
  '%40',
  '1 ',
  '1-',
  '://',
  'a://b:c@',
  'sk-',
  'eyJ',
  'password="',
  'authorization: a ',
  'Bearer ',
  '<token ',
  'password%22',
])('of 64 kB of %j, each character costs as much as in a short text', (part) => {
  const costOf = (length: number): number => {
    const text = part.repeat(length / part.length)
    const runs = Array.from({ length: 5 }, () => {
      const before = process.cpuUsage()
      redact(text, 65_536)
      const { user, system } = process.cpuUsage(before)
      return user + system
    })
    return Math.min(...runs)
  }
  expect(costOf(65_536)).toBeLessThan(24 * Math.max(costOf(8_192), 2_000))
})
