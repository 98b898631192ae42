import type { AsJson, ErrorAnswer, Session } from '../../packages/console/src/api.js'

/** What came back: the body parsed where it is JSON. */
export interface Answer<T = unknown> {
  readonly status: number
  readonly headers: Headers
  readonly body: T
}

/** A browser that is signed in to a console, as far as its server can tell. */
export class ConsoleClient {
  readonly origin: string
  readonly #headers: Readonly<Record<string, string>>
  #csrf = ''
  #cookie = ''

  /** `headers`: sent with every request, such as who it is. */
  constructor(origin: string, headers: Readonly<Record<string, string>> = {}) {
    this.origin = origin
    this.#headers = headers
  }

  async get<T = unknown>(
    path: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<AsJson<T>>> {
    return this.#send(path, { headers: { ...this.#sent(), ...headers } })
  }

  /** As a page does: with the token of the session, which it gets first if it has none. */
  async post<T = unknown>(
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<AsJson<T>>> {
    if (this.#csrf === '') await this.session()
    return this.#send(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { ...this.#sent(), 'content-type': 'application/json', 'x-pawl-csrf': this.#csrf, ...headers },
    })
  }

  async session(): Promise<AsJson<Session>> {
    const { body, headers } = await this.get<Session>('api/session')
    const [cookie] = headers.getSetCookie()
    if (cookie !== undefined) this.#cookie = cookie.split(';')[0] ?? ''
    this.#csrf = body.csrf
    return body
  }

  /** What a change is sent with, for requests that this client does not make. */
  async credentials(): Promise<{ readonly csrf: string; readonly cookie: string }> {
    const { csrf } = await this.session()
    return { csrf, cookie: this.#cookie }
  }

  #sent(): Record<string, string> {
    return { ...this.#headers, ...(this.#cookie !== '' && { cookie: this.#cookie }) }
  }

  async #send<T>(path: string, init: RequestInit): Promise<Answer<T>> {
    const response = await fetch(`${this.origin}/${path}`, { redirect: 'manual', ...init })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(text) : text) as T,
    }
  }
}

/** The error that an answer has. */
export function errorOf({ body }: Answer): AsJson<ErrorAnswer['error']> {
  return (body as AsJson<ErrorAnswer>).error
}
