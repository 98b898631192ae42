import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { readCookie, writeCookie } from './cookies.js'
import { isLoopbackHost } from './loopback.js'
import { MAX_SESSIONS, SESSION_MS, TOKEN_BYTES } from './limits.js'
import { isSameSecret } from './same-secret.js'
import type { ConsoleUser } from './user.js'

export interface LocalSignInOptions {
  readonly user: ConsoleUser
  /** May be used any number of times; null for tokens of our own, each of which is used once. */
  readonly token: string | null
  /** Whether anything but this machine may ask. */
  readonly anyHost: boolean
  /** Called when a token was used up, and there is another. */
  readonly onUsed: () => void
}

/**
 * Signs in whoever knows a token, which only the person who started the console was shown: other users of the machine can reach the
 * port as well. The token is exchanged for a cookie, so that it does not stay in addresses.
 */
export class LocalSignIn {
  readonly #options: LocalSignInOptions
  /**
   * The folder that the console is in, such as `/kq0…`. A browser sends the cookies of a machine to each of its ports, so that another
   * user of the machine could serve a page and get the session: but only in folders that they belong to, and this one is nobody else's.
   */
  readonly folder: string
  /** Sessions by their ids, oldest first, and when they end on the monotonic clock. */
  readonly #sessions = new Map<string, number>()
  #token: string

  constructor(options: LocalSignInOptions) {
    this.#options = options
    this.#token = options.token ?? newToken()
    this.folder = `/${newToken().slice(0, FOLDER_LENGTH)}`
  }

  /** Where in the folder the next browser signs in. */
  get path(): string {
    return `/enter/${encodeURIComponent(this.#token)}`
  }

  readonly authenticate = (request: FastifyRequest, reply: FastifyReply): ConsoleUser | null => {
    // Or a page of another site could have its own name lead here, and would then be the same site to the browser.
    if (!this.#options.anyHost && !isLoopbackHost(request.headers.host)) return null
    const id = readCookie(request.headers.cookie, cookieName(request))
    if (id !== null && this.#isOpen(id)) return this.#options.user
    const isPage = request.method === 'GET' && request.headers.accept?.includes('text/html') === true
    if (isPage) void this.askToEnter(reply)
    return null
  }

  /** Says to whoever comes to another address where to begin. */
  askToEnter(reply: FastifyReply): unknown {
    return reply.code(401).type(HTML).send(SIGN_IN_FIRST)
  }

  /** Exchanges a token for a session. `to`: the console, as seen from the address of the request. */
  enter(request: FastifyRequest, reply: FastifyReply, to: string): unknown {
    const { token } = request.params as { readonly token: string }
    if (!this.#options.anyHost && !isLoopbackHost(request.headers.host)) return this.askToEnter(reply)
    if (!isSameSecret(token, this.#token)) return this.askToEnter(reply)
    if (this.#options.token === null) {
      this.#token = newToken()
      this.#options.onUsed()
    }
    const isSecure = request.protocol === 'https'
    const cookie = writeCookie(cookieName(request), this.#open(), isSecure, this.folder)
    // A page, and not a redirect: browsers send a strict cookie only along with what a page of this site asks for, and whoever follows
    // the address comes from elsewhere.
    return reply.header('set-cookie', cookie).type(HTML).send(signedIn(to))
  }

  #open(): string {
    const [oldest] = this.#sessions.keys()
    if (this.#sessions.size >= MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest)
    const id = newToken()
    this.#sessions.set(id, performance.now() + SESSION_MS)
    return id
  }

  #isOpen(id: string): boolean {
    const endsAt = this.#sessions.get(id)
    if (endsAt === undefined) return false
    if (performance.now() < endsAt) return true
    this.#sessions.delete(id)
    return false
  }
}

const HTML = 'text/html; charset=utf-8'
const PAGE = (text: string, refresh = '') =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">${refresh}<title>Pawl</title><p>${text}</p></html>`
const signedIn = (to: string) =>
  PAGE(
    `Signed in. <a href="${to}">Go to the console</a>.`,
    `<meta http-equiv="refresh" content="0;url=${to}">`,
  )
const SIGN_IN_FIRST = PAGE(
  'This console has not signed this browser in. Open the address that <code>pawl console</code> printed last; each works once.',
)

/** Cookies do not tell ports apart: two consoles on one machine would sign each other out. */
function cookieName({ raw }: FastifyRequest): string {
  return `pawl-console-${raw.socket.localPort ?? 0}`
}

/** 128 bits: nobody guesses it, and it is shorter than a token in the address that people see. */
const FOLDER_LENGTH = 22

function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url')
}
