import { type IncomingMessage, request as httpRequest } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import type { JsonValue } from '@pawl/core'
import { checkKnownOptions, checkOneOf, invalidOption } from '@pawl/core/internal'
import { ProviderError } from './provider-error.js'
import { checkOptions } from './provider-options.js'

/** How a request is sent to the fake provider. */
export interface SendOptions {
  /** Sent as the header `idempotency-key`. */
  readonly idempotencyKey?: string
  /** Aborts the request. The provider may still have executed it. */
  readonly signal?: AbortSignal
  /** Default `/effects`. */
  readonly path?: string
  /** Default POST. */
  readonly method?: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
}

/** How the fake provider is queried. */
export type FindOptions = Pick<SendOptions, 'signal' | 'path'>

/** What the provider answers about an effect. */
export interface EffectAnswer {
  readonly id: string
  readonly [field: string]: JsonValue
}

const DEFAULT_PATH = '/effects'
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE']
const SEND_OPTIONS = [
  'idempotencyKey',
  'signal',
  'path',
  'method',
] as const satisfies readonly (keyof SendOptions)[]
const FIND_OPTIONS = ['signal', 'path'] as const satisfies readonly (keyof FindOptions)[]

export async function sendTo(url: string, body: JsonValue, options: SendOptions): Promise<EffectAnswer> {
  const { method = 'POST', path = DEFAULT_PATH, idempotencyKey, signal } = options
  const headers = {
    'content-type': 'application/json',
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
  }
  const answer = await exchange(url + path, { method, headers, signal }, JSON.stringify(body))
  return effectIn(answer, `${method} ${path}`)
}

export async function findAt(
  url: string,
  idempotencyKey: string,
  options: FindOptions,
): Promise<EffectAnswer | null> {
  const { path = DEFAULT_PATH, signal } = options
  const headers = { 'idempotency-key': idempotencyKey }
  const answer = await exchange(url + path, { method: 'GET', headers, signal }, null)
  return answer.status === 404 ? null : effectIn(answer, `GET ${path}`)
}

export function checkSendOptions(options: SendOptions): void {
  checkOptions('provider.send', (owner) => {
    checkKnownOptions(owner, options, SEND_OPTIONS)
    const { idempotencyKey, path } = options
    if (idempotencyKey !== undefined && typeof idempotencyKey !== 'string')
      throw invalidOption(owner, 'idempotencyKey', idempotencyKey, 'a string')
    if (path !== undefined && !isPath(path))
      throw invalidOption(owner, 'path', path, "a path that begins with '/'")
    checkOneOf(owner, 'method', options.method, METHODS)
  })
}

export function checkFindOptions(idempotencyKey: string, options: FindOptions): void {
  checkOptions('provider.find', (owner) => {
    if (typeof idempotencyKey !== 'string')
      throw invalidOption(owner, 'idempotencyKey', idempotencyKey, 'a string')
    checkKnownOptions(owner, options, FIND_OPTIONS)
    const { path } = options
    if (path !== undefined && !isPath(path))
      throw invalidOption(owner, 'path', path, "a path that begins with '/'")
  })
}

function isPath(path: unknown): boolean {
  return typeof path === 'string' && path.startsWith('/')
}

interface Sent {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal | undefined
}

/** Uses a new connection each time, because the last fault might have broken one that was kept. */
async function exchange(
  url: string,
  { method, headers, signal }: Sent,
  body: string | null,
): Promise<{ status: number; text: string }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = httpRequest(url, {
      method,
      headers,
      agent: false,
      ...(signal === undefined ? {} : { signal }),
    })
    request.on('response', resolve).on('error', reject)
    request.end(body ?? undefined)
  })
  return { status: response.statusCode ?? 0, text: await textOf(response) }
}

function effectIn(answer: { status: number; text: string }, request: string): EffectAnswer {
  if (answer.status >= 400) throw new ProviderError(answer.status, request, jsonOrText(answer.text))
  // Throws a SyntaxError, as fetch and most SDKs do. The engine knows that it does not say what happened.
  const body = JSON.parse(answer.text) as EffectAnswer | null
  if (typeof body !== 'object' || typeof body?.id !== 'string') {
    throw new TypeError(
      `The answer to ${request} has no id. provider.send and provider.find read { id, … }: ` +
        'return one in the body of your answer, or use a client of your own.',
    )
  }
  return body
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}
