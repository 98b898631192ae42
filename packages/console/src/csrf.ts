import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ConsoleError } from './console-error.js'
import { readCookie, writeCookie } from './cookies.js'
import { TOKEN_BYTES } from './limits.js'
import { isSameSecret } from './same-secret.js'

/** The header with which a page shows that it could read the answer of `GET api/session`. */
const CSRF_HEADER = 'x-pawl-csrf'

/** What we make: anything else was not set by us. */
const TOKEN = /^[\w-]{43}$/

/** With this prefix, a browser takes the cookie only from this host itself, and only over TLS. */
const cookieName = ({ protocol }: FastifyRequest) =>
  protocol === 'https' ? '__Host-pawl-console-csrf' : 'pawl-console-csrf'

/** The token of this browser, which gets one if it has none. All of its tabs share it. */
export function csrfToken(request: FastifyRequest, reply: FastifyReply): string {
  const known = readCookie(request.headers.cookie, cookieName(request))
  if (known !== null && TOKEN.test(known)) return known
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  reply.header('set-cookie', writeCookie(cookieName(request), token, request.protocol === 'https'))
  return token
}

/** Refuses a change that no page of the console asked for: one of another site can send a request, but neither read nor set a token. */
export function checkCsrf(request: FastifyRequest): void {
  const cookie = readCookie(request.headers.cookie, cookieName(request))
  const header = request.headers[CSRF_HEADER]
  const isShown =
    cookie !== null && TOKEN.test(cookie) && typeof header === 'string' && isSameSecret(cookie, header)
  if (isShown) return
  throw new ConsoleError(
    'forbidden',
    `The header ${CSRF_HEADER} and the cookie are not the same: load the page again. (A script gets both from GET api/session.)`,
  )
}

/**
 * Refuses requests that a page of another site has a browser send. Browsers say where a request comes from, and no page can change that:
 * current ones in `Sec-Fetch-Site`, on TLS and loopback, and all of them in `Origin`, with a POST. Whoever is no browser sends neither.
 */
export function checkOrigin(request: FastifyRequest): void {
  const { 'sec-fetch-site': site, origin } = request.headers
  const isOurs =
    site === undefined
      ? origin === undefined || isSameHost(origin, request.host)
      : site === 'same-origin' || (site === 'none' && request.method === 'GET')
  if (isOurs) return
  const from =
    site === undefined ? `the page ${origin}, and went to host ${request.host}` : 'a page of another site'
  throw new ConsoleError(
    'forbidden',
    `The request comes from ${from}. Behind a proxy, have it pass on the Host header, or set trustProxy.`,
  )
}

function isSameHost(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host.toLowerCase()
}
